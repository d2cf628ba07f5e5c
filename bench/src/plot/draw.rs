//! The SVG, drawn by plotters.

use core::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Chart, Corner, Curve, Mark};
use crate::case::Trouble;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Field<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<LogCoord<f64>, LogCoord<f64>>>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Draws the charts below each other.
///
/// # Errors
/// When plotters cannot draw them.
pub fn draw(charts: &[Chart]) -> Result<String, Trouble> {
    let mut svg = String::new();
    let height = HEIGHT * u32::try_from(charts.len().max(1)).unwrap_or(1);
    let page = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    page.fill(&WHITE).map_err(Trouble::failed)?;
    for (area, chart) in page.split_evenly((charts.len().max(1), 1)).iter().zip(charts) {
        draw_chart(area, chart).map_err(Trouble::failed)?;
    }
    page.present().map_err(Trouble::failed)?;
    drop(page);
    Ok(svg)
}

fn draw_chart(area: &Area<'_>, chart: &Chart) -> Drawn {
    area.draw_text(&chart.title, &text(area, 19.0, &INK), (LEFT, 16))?;
    for (line, note) in (0..).zip(&chart.notes) {
        area.draw_text(note, &text(area, 13.0, &GREY), (LEFT, 42 + 17 * line))?;
    }
    let shown = || chart.curves.iter().flat_map(Curve::shown);
    let sizes = || shown().map(|point| point.x).chain(chart.marks.iter().map(|mark| mark.x));
    // Numbers are powers of two, and shares of ten.
    let base = if sizes().all(|size| size >= 1.0) { 2.0 } else { 10.0 };
    let values = shown().flat_map(|point| [point.y, point.spread[0], point.spread[1]]);
    let mut field = ChartBuilder::on(area)
        .margin_top(86)
        .margin_right(24)
        .margin_left(10)
        .margin_bottom(12)
        .x_label_area_size(48)
        .y_label_area_size(62)
        .build_cartesian_2d(around(sizes()).log_scale().base(base), around(values).log_scale())?;
    field
        .configure_mesh()
        .max_light_lines(0)
        .bold_line_style(GRID)
        .axis_style(GREY)
        .x_labels(12)
        .y_labels(8)
        .x_desc(&chart.x)
        .y_desc(&chart.y)
        .x_label_formatter(&|size| if chart.has_octets { octets(*size) } else { size.to_string() })
        .y_label_formatter(&|value| value.to_string())
        .label_style(text(area, 13.0, &GREY))
        .axis_desc_style(text(area, 14.0, &INK))
        .draw()?;
    chart.marks.iter().try_for_each(|mark| draw_mark(area, &field, mark))?;
    chart.curves.iter().try_for_each(|curve| draw_curve(&mut field, curve))?;
    let position = match chart.legend {
        Corner::UpperLeft => SeriesLabelPosition::UpperLeft,
        Corner::LowerRight => SeriesLabelPosition::LowerRight,
        Corner::LowerLeft => SeriesLabelPosition::LowerLeft,
    };
    field
        .configure_series_labels()
        .position(position)
        .margin(12)
        .legend_area_size(44)
        .background_style(WHITE.mix(0.85))
        .border_style(GRID)
        .label_font(text(area, 13.0, &INK))
        .draw()
}

/// Draws a line through the medians, a bar for each spread, and a dot for each median: full for ours, a ring for a
/// reference.
fn draw_curve<'a, 'b: 'a>(field: &mut Field<'a, 'b>, curve: &Curve) -> Drawn {
    let color = COLORS[curve.color % COLORS.len()];
    let is_ours = curve.is_ours;
    let bars = curve.shown().filter(|point| point.spread[0] > 0.0).map(|point| {
        let [low, high] = point.spread;
        PathElement::new([(point.x, low), (point.x, high)], color.mix(0.5))
    });
    field.draw_series(bars)?;
    let medians: Vec<(f64, f64)> = curve.shown().map(|point| (point.x, point.y)).collect();
    let line = color.stroke_width(2);
    let series = if is_ours {
        field.draw_series(LineSeries::new(medians.clone(), line))?
    } else {
        field.draw_series(DashedLineSeries::new(medians.clone(), 6, 4, line))?
    };
    series.label(&curve.name).legend(move |(x, y)| {
        let dash = |from, to| PathElement::new([(x + from, y), (x + to, y)], line);
        let [left, right] = if is_ours { [dash(0, 20), dash(20, 40)] } else { [dash(2, 12), dash(26, 36)] };
        let dot = Circle::new((x + 20, y), 3, if is_ours { color.filled() } else { color.into() });
        EmptyElement::at((0, 0)) + left + right + dot
    });
    field.draw_series(medians.iter().map(|&at| {
        let inside = if is_ours { color } else { WHITE };
        EmptyElement::at(at) + Circle::new((0, 0), 3, inside.filled()) + Circle::new((0, 0), 3, color)
    }))?;
    Ok(())
}

/// Draws a vertical line. Its text is on the side with more room.
fn draw_mark(area: &Area<'_>, field: &Field<'_, '_>, mark: &Mark) -> Drawn {
    let (from, to) = (field.y_range(), field.x_range());
    let line = DashedLineSeries::new([(mark.x, from.start), (mark.x, from.end)], 3, 3, INK.into());
    let is_left = mark.x * mark.x < to.start * to.end;
    let (side, space) = if is_left { (HPos::Left, 6) } else { (HPos::Right, -6) };
    let (x, y) = field.backend_coord(&(mark.x, from.start));
    let style = text(area, 13.0, &INK).pos(Pos::new(side, VPos::Bottom));
    line.into_iter().try_for_each(|dash| field.plotting_area().draw(&dash))?;
    area.draw_text(&mark.text, &style, (x + space, y - 6))
}

fn text<'a>(area: &Area<'_>, size: f64, color: &'a RGBColor) -> TextStyle<'a> {
    ("sans-serif", size).into_text_style(area).color(color)
}

/// Returns a range with some room around all values, or any range if there are none.
fn around(values: impl Iterator<Item = f64>) -> Range<f64> {
    let positive = values.filter(|value| *value > 0.0);
    let (low, high) =
        positive.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    if low > high { 1.0..10.0 } else { low / 1.3..high * 1.3 }
}

/// Returns a number of octets as text.
fn octets(size: f64) -> String {
    let units = [(1_048_576.0, "MiB"), (1024.0, "KiB")];
    let (divisor, unit) = units.into_iter().find(|(least, _)| size >= *least).unwrap_or((1.0, "B"));
    format!("{} {unit}", (size / divisor * 10.0).round() / 10.0)
}

const WIDTH: u32 = 860;
const HEIGHT: u32 = 540;
const LEFT: i32 = 72;
const INK: RGBColor = RGBColor(0x1c, 0x24, 0x30);
const GREY: RGBColor = RGBColor(0x56, 0x60, 0x70);
const GRID: RGBColor = RGBColor(0xe4, 0xe7, 0xec);
/// Colors that people with any color vision can tell from each other (after Okabe and Ito).
const COLORS: [RGBColor; 3] =
    [RGBColor(0x00, 0x60, 0xa8), RGBColor(0xc4, 0x4e, 0x00), RGBColor(0x00, 0x78, 0x5a)];

#[cfg(test)]
mod tests {
    use super::super::Point;
    use super::*;

    fn chart() -> Chart {
        let points = |scale: f64| {
            let sizes = (0..8).map(|power| 8.0 * 8_f64.powi(power));
            let point = |x: f64| Point { x, y: x * scale, spread: [x * scale * 0.9, x * scale * 1.1] };
            sizes.map(point).collect::<Vec<_>>()
        };
        let curve = |name: &str, is_ours, scale| Curve {
            name: name.into(),
            color: 0,
            is_ours,
            points: points(scale),
        };
        Chart {
            title: "Throughput <over> size".into(),
            notes: vec!["5 turns & their spread".into()],
            x: "Octets of a message".into(),
            has_octets: true,
            y: "Throughput, GB/s".into(),
            legend: Corner::LowerRight,
            curves: vec![curve("ours", true, 1e-6), curve("\"theirs\"", false, 2e-6)],
            marks: vec![Mark { x: 8.0 * 8_f64.powi(7), text: "from here on".into() }],
        }
    }

    /// Returns how many dots there are. Checks that all are within the field.
    fn dots(svg: &str) -> usize {
        let circles = svg.split("<circle ").skip(1);
        circles
            .inspect(|circle| {
                let number = |name: &str| -> u32 {
                    let rest = &circle[circle.find(&format!("{name}=\"")).expect(name) + name.len() + 2..];
                    rest[..rest.find('"').expect("an end")].parse().expect("a number")
                };
                assert!((LEFT.unsigned_abs()..=WIDTH - 24).contains(&number("cx")), "{circle}");
                assert!((86..HEIGHT - 12).contains(&(number("cy") % HEIGHT)), "{circle}");
            })
            .count()
    }

    #[test]
    fn all_curves_are_within_the_picture_and_named() {
        let svg = draw(&[chart(), chart()]).unwrap();
        for text in [
            "&lt;over&gt; size",
            "turns &amp; their",
            "&quot;theirs&quot;",
            "Throughput, GB/s",
            "\n8 B\n",
            "\n128 KiB\n",
            "from here on",
        ] {
            assert_eq!(svg.matches(text).count(), 2, "{text}: {svg}");
        }
        assert_eq!(dots(&svg), 2 * 2 * (2 * 8 + 1), "two circles for each point, and one in the legend");
    }

    #[test]
    fn values_that_cannot_be_shown_are_left_out() {
        let mut chart = chart();
        chart.curves[0].points[0].y = 0.0;
        chart.curves[1].points.clear();
        chart.marks.clear();
        let svg = draw(&[chart]).unwrap();
        assert_eq!(dots(&svg), 2 * 7 + 2);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(dots(&draw(&[]).unwrap()), 0);
    }

    #[test]
    fn numbers_of_octets_have_units() {
        let written = [8.0, 512.0, 1024.0, 131_072.0, 1_572_864.0].map(octets);
        assert_eq!(written, ["8 B", "512 B", "1 KiB", "128 KiB", "1.5 MiB"]);
    }
}
