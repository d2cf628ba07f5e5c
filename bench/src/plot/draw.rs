//! The SVG.

use core::fmt::Write;

use super::axis::Axis;
use super::{Chart, Curve, Point};

/// Draws the charts below each other.
#[must_use]
pub fn draw(charts: &[Chart]) -> String {
    let heights: Vec<f64> = charts.iter().map(|chart| Layout::of(chart).height).collect();
    let height: f64 = heights.iter().sum::<f64>().max(1.0);
    let mut svg = String::new();
    line(
        &mut svg,
        format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">"#
        ),
    );
    line(&mut svg, format_args!("<style>{}</style>", style()));
    line(&mut svg, format_args!(r#"<rect class="page" width="{WIDTH}" height="{height}"/>"#));
    let mut top = 0.0;
    for (chart, height) in charts.iter().zip(heights) {
        line(&mut svg, format_args!(r#"<g transform="translate(0 {top})">"#));
        draw_chart(&mut svg, chart);
        line(&mut svg, format_args!("</g>"));
        top += height;
    }
    svg.push_str("</svg>\n");
    svg
}

/// Where things are in one chart.
struct Layout {
    /// The subtitle in lines that fit.
    notes: Vec<String>,
    /// Rows of the legend: which curves, and where each begins.
    legend: Vec<(usize, f64, f64)>,
    /// The field of the curves: top and bottom.
    top: f64,
    bottom: f64,
    height: f64,
}

impl Layout {
    fn of(chart: &Chart) -> Self {
        let notes = wrap(&chart.subtitle, WIDTH - LEFT - RIGHT, 12.0);
        let (mut x, mut y) = (LEFT, NOTE + 24.0 + NOTE_STEP * notes.len().saturating_sub(1) as f64);
        let mut legend = Vec::new();
        for (index, curve) in chart.curves.iter().enumerate() {
            let width = SAMPLE + 8.0 + text_width(&curve.name, 12.0) + 22.0;
            if x > LEFT && x + width > WIDTH - RIGHT {
                (x, y) = (LEFT, y + 19.0);
            }
            legend.push((index, x, y));
            x += width;
        }
        // The texts of marks have a row of their own.
        let top = y + if chart.marks.is_empty() { 18.0 } else { 36.0 };
        Self { notes, legend, top, bottom: top + FIELD, height: top + FIELD + 58.0 }
    }
}

/// The field of the curves, with its axes.
struct Field {
    x: Axis,
    y: Axis,
    top: f64,
    bottom: f64,
}

impl Field {
    fn of(chart: &Chart, layout: &Layout) -> Self {
        let shown = || chart.curves.iter().flat_map(Curve::shown);
        let marks = chart.marks.iter().map(|mark| mark.x);
        let x = Axis::around(chart.x.1, shown().map(|point| point.x).chain(marks));
        let heights = shown().flat_map(|point| [point.y, point.spread[0], point.spread[1]]);
        let y = Axis::around(chart.y.1, heights.filter(|height| *height > 0.0));
        Self { x, y, top: layout.top, bottom: layout.bottom }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - self.y.place(value) * (self.bottom - self.top)
    }
}

fn draw_chart(svg: &mut String, chart: &Chart) {
    let layout = Layout::of(chart);
    let field = Field::of(chart, &layout);
    let title = escape(&chart.title);
    line(svg, format_args!(r#"<text class="title" x="{LEFT}" y="30">{title}</text>"#));
    for (index, note) in layout.notes.iter().enumerate() {
        let (y, note) = (NOTE + NOTE_STEP * index as f64, escape(note));
        line(svg, format_args!(r#"<text class="note" x="{LEFT}" y="{y}">{note}</text>"#));
    }
    draw_legend(svg, chart, &layout);
    draw_axes(svg, chart, &field);
    draw_marks(svg, chart, &field);
    // Ours on top.
    let (ours, others): (Vec<_>, Vec<_>) = chart.curves.iter().partition(|curve| curve.is_ours);
    for curve in others.into_iter().chain(ours) {
        draw_curve(svg, curve, &field);
    }
}

fn draw_axes(svg: &mut String, chart: &Chart, field: &Field) {
    let (left, right, top, bottom) = (LEFT, WIDTH - RIGHT, field.top, field.bottom);
    for tick in field.x.ticks() {
        let (at, text, below) = (field.x(tick), field.x.text(tick), bottom + 18.0);
        vertical(svg, "grid", at, (top, bottom));
        let place = format_args!(r#"x="{at:.1}" y="{below:.1}" text-anchor="middle""#);
        line(svg, format_args!(r#"<text class="tick" {place}>{text}</text>"#));
    }
    for tick in field.y.ticks() {
        let (at, text) = (field.y(tick), field.y.text(tick));
        line(svg, format_args!(r#"<path class="grid" d="M{left} {at:.1}H{right}"/>"#));
        let (before, baseline) = (left - 8.0, at + 4.0);
        let place = format_args!(r#"x="{before}" y="{baseline:.1}" text-anchor="end""#);
        line(svg, format_args!(r#"<text class="tick" {place}>{text}</text>"#));
    }
    line(svg, format_args!(r#"<path class="frame" d="M{left} {top}V{bottom}H{right}"/>"#));
    let (middle, below, label) = (f64::midpoint(left, right), bottom + 40.0, escape(&chart.x.0));
    let place = format_args!(r#"x="{middle}" y="{below}" text-anchor="middle""#);
    line(svg, format_args!(r#"<text class="label" {place}>{label}</text>"#));
    let label = escape(&format!("{}, {}", chart.y.0, field.y.unit()));
    let middle = f64::midpoint(top, bottom);
    let place = format_args!(r#"transform="translate(20 {middle}) rotate(-90)" text-anchor="middle""#);
    line(svg, format_args!(r#"<text class="label" {place}>{label}</text>"#));
}

fn draw_marks(svg: &mut String, chart: &Chart, field: &Field) {
    for mark in &chart.marks {
        let (at, above, text) = (field.x(mark.x), field.top - 6.0, escape(&mark.text));
        vertical(svg, "mark", at, (field.top, field.bottom));
        // A text near an edge keeps to its side of the line.
        let half = text_width(&mark.text, 12.0) / 2.0;
        let anchor = match () {
            () if at + half > WIDTH - RIGHT => "end",
            () if at - half < LEFT => "start",
            () => "middle",
        };
        let place = format_args!(r#"x="{at:.1}" y="{above:.1}" text-anchor="{anchor}""#);
        line(svg, format_args!(r#"<text class="marked" {place}>{text}</text>"#));
    }
}

fn draw_curve(svg: &mut String, curve: &Curve, field: &Field) {
    let class = class_of(curve);
    for Point { x, spread: [low, high], .. } in curve.shown() {
        if *low > 0.0 && high > low {
            vertical(svg, &format!("{class} spread"), field.x(*x), (field.y(*high), field.y(*low)));
        }
    }
    let path: Vec<String> =
        curve.shown().map(|point| format!("{:.1} {:.1}", field.x(point.x), field.y(point.y))).collect();
    line(svg, format_args!(r#"<path class="{class}" d="M{}"/>"#, path.join("L")));
    for point in curve.shown() {
        draw_dot(svg, curve, (field.x(point.x), field.y(point.y)));
    }
}

fn draw_legend(svg: &mut String, chart: &Chart, layout: &Layout) {
    for &(index, x, y) in &layout.legend {
        let curve = &chart.curves[index];
        let (class, name, line_y) = (class_of(curve), escape(&curve.name), y - 4.0);
        let (end, text) = (x + SAMPLE, x + SAMPLE + 8.0);
        line(svg, format_args!(r#"<path class="{class}" d="M{x:.1} {line_y}H{end:.1}"/>"#));
        draw_dot(svg, curve, (x + SAMPLE / 2.0, line_y));
        line(svg, format_args!(r#"<text class="name" x="{text:.1}" y="{y}">{name}</text>"#));
    }
}

/// Ours is full, a reference is a ring.
fn draw_dot(svg: &mut String, curve: &Curve, (x, y): (f64, f64)) {
    let (class, radius) = (class_of(curve), if curve.is_ours { 3.2 } else { 2.8 });
    line(svg, format_args!(r#"<circle class="{class} dot" cx="{x:.1}" cy="{y:.1}" r="{radius}"/>"#));
}

fn class_of(curve: &Curve) -> String {
    format!("c{} {}", curve.color % COLORS.len(), if curve.is_ours { "ours" } else { "other" })
}

fn vertical(svg: &mut String, class: &str, x: f64, (top, bottom): (f64, f64)) {
    line(svg, format_args!(r#"<path class="{class}" d="M{x:.1} {top:.1}V{bottom:.1}"/>"#));
}

fn line(svg: &mut String, text: core::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _always_ok = writeln!(svg, "{text}");
}

/// The colors of a light page, and of a dark one where the reader has that.
fn style() -> String {
    let mut light = String::new();
    let mut dark = String::new();
    for (index, [on_light, on_dark]) in COLORS.iter().enumerate() {
        let rule = |color: &str| format!(".c{index}{{stroke:{color}}}.c{index}.ours.dot{{fill:{color}}}");
        light.push_str(&rule(on_light));
        dark.push_str(&rule(on_dark));
    }
    format!("{SHAPES}{LIGHT}{light}@media(prefers-color-scheme:dark){{{DARK}{dark}}}")
}

/// A text in lines that are not wider than this.
fn wrap(text: &str, width: f64, size: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(line, size) + text_width(word, size) < width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// About how wide a text is in a font without serifs.
fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.56
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const WIDTH: f64 = 820.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 26.0;
/// Where the subtitle stands, and from one line of it to the next.
const NOTE: f64 = 50.0;
const NOTE_STEP: f64 = 16.0;
/// Height of the field of the curves.
const FIELD: f64 = 330.0;
/// Length of a line in the legend.
const SAMPLE: f64 = 30.0;
/// On a light page and on a dark one: colors that people with any color vision can tell from each other (after Okabe and Ito).
const COLORS: [[&str; 2]; 6] = [
    ["#0060a8", "#5ab4f0"],
    ["#c44e00", "#f0a05a"],
    ["#00785a", "#4cc8a0"],
    ["#a0408c", "#e090cc"],
    ["#806000", "#dcc050"],
    ["#505050", "#b8b8b8"],
];
const SHAPES: &str = "text{font-family:system-ui,'DejaVu Sans',Helvetica,Arial,sans-serif}.title{font-size:17px;font-weight:600}\
.note,.tick{font-size:12px}.label,.name{font-size:12.5px}.marked{font-size:12px;font-weight:600}\
path,circle{fill:none}.grid{stroke-width:1}.frame{stroke-width:1.2}.mark{stroke-width:1.4;stroke-dasharray:2 3}\
.ours{stroke-width:2.4;stroke-linejoin:round}.other{stroke-width:1.7;stroke-dasharray:6 4}\
.spread{stroke-width:1.2;stroke-dasharray:none;opacity:.55}.dot{stroke-width:1.5;stroke-dasharray:none}";
const LIGHT: &str = ".page{fill:#fff}text{fill:#1c2430}.note,.tick{fill:#566070}.grid{stroke:#e4e7ec}.frame{stroke:#8a93a0}\
.mark{stroke:#1c2430}.other.dot{fill:#fff}";
const DARK: &str = ".page{fill:#0f141b}text{fill:#e8ecf2}.note,.tick{fill:#a4aebb}.grid{stroke:#27303b}.frame{stroke:#7a8492}\
.mark{stroke:#e8ecf2}.other.dot{fill:#0f141b}";

#[cfg(test)]
mod tests {
    use super::super::{Mark, Unit};
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
            subtitle: "5 turns & their spread".into(),
            x: ("Octets of a message".into(), Unit::Octets),
            y: ("Throughput".into(), Unit::Of("GB/s")),
            curves: vec![curve("ours", true, 1e-6), curve("\"theirs\"", false, 2e-6)],
            marks: vec![Mark { x: 8.0 * 8_f64.powi(7), text: "from here on".into() }],
        }
    }

    /// Tags are closed in the order in which they were opened, and texts are escaped.
    fn check_well_formed(svg: &str) {
        let mut open = Vec::new();
        for tag in svg.split('<').skip(1) {
            let (tag, text) = tag.split_once('>').expect("a tag that ends");
            assert!(!text.contains('>') && !text.replace("&lt;", "").contains("& "), "{text}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name.to_owned()));
            } else if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().unwrap_or_default().to_owned());
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn all_is_within_the_picture_and_named() {
        let svg = draw(&[chart(), chart()]);
        check_well_formed(&svg);
        for text in [
            "&lt;over&gt; size",
            "turns &amp; their",
            "&quot;theirs&quot;",
            "Throughput, GB/s",
            "8 B",
            "from here on",
        ] {
            assert!(svg.matches(text).count() >= 2, "{text}");
        }
        let mut dots = 0;
        for circle in svg.split("<circle ").skip(1) {
            let number = |name: &str| -> f64 {
                let rest = &circle[circle.find(&format!("{name}=\"")).expect(name) + name.len() + 2..];
                rest[..rest.find('"').expect("an end")].parse().expect("a number")
            };
            assert!((LEFT..=WIDTH - RIGHT).contains(&number("cx")), "{circle}");
            assert!(number("cy") > 0.0 && number("cy") < 74.0 + 36.0 + FIELD, "{circle}");
            dots += 1;
        }
        assert_eq!(dots, 2 * 2 * (8 + 1), "each point, and one in the legend");
    }

    #[test]
    fn a_long_subtitle_takes_several_lines() {
        let text = "words of seven letters ".repeat(30);
        let lines = wrap(&text, 500.0, 12.0);
        assert!(lines.len() > 3 && lines.iter().all(|line| text_width(line, 12.0) <= 500.0), "{lines:?}");
        assert_eq!(lines.join(" "), text.trim());
        assert!(wrap("", 500.0, 12.0).is_empty());
        let mut long = chart();
        let short = Layout::of(&long).height;
        long.subtitle = text;
        assert!(Layout::of(&long).height > short);
        check_well_formed(&draw(&[long]));
    }

    #[test]
    fn what_cannot_be_shown_is_left_out() {
        let mut chart = chart();
        chart.curves[0].points[0].y = 0.0;
        chart.curves[1].points.clear();
        chart.marks.clear();
        let svg = draw(&[chart]);
        check_well_formed(&svg);
        assert_eq!(svg.matches("<circle").count(), 7 + 2);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        check_well_formed(&draw(&[]));
    }
}
