//! The options of a socket by their numbers.

use rustix::io::Errno;
use weft_exs::{Messages, Options, Plain, Stream};

/// An option of `exs_fcntl`: `EXS_SMALL_PACKET_MAX` and those behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    SmallPacketMax,
    SendCredits,
    RecvCredits,
    Window,
    Adverts,
    Ring,
    DirectMin,
    Plain,
}

impl Setting {
    /// Returns the option of a number.
    ///
    /// # Errors
    /// `EINVAL`.
    pub(crate) const fn of(number: i32) -> Result<Self, Errno> {
        Ok(match number {
            1 => Self::SmallPacketMax,
            2 => Self::SendCredits,
            3 => Self::RecvCredits,
            4 => Self::Window,
            5 => Self::Adverts,
            6 => Self::Ring,
            7 => Self::DirectMin,
            8 => Self::Plain,
            _ => return Err(Errno::INVAL),
        })
    }

    pub(crate) fn value(self, options: &Options) -> i32 {
        let value = match self {
            Self::SmallPacketMax => options.small_packet_max,
            Self::SendCredits => options.send_credits.into(),
            Self::RecvCredits => options.recv_credits.into(),
            Self::Window => options.window.into(),
            Self::Adverts => options.adverts.into(),
            Self::Ring => options.ring,
            Self::DirectMin => options.direct_min,
            Self::Plain => match options.plain {
                Plain::Off => 0,
                Plain::Accept => 1,
                Plain::Always => 2,
            },
        };
        i32::try_from(value).unwrap_or(i32::MAX)
    }

    /// Sets the option of a socket of this type.
    ///
    /// # Errors
    /// `EINVAL` if the options are out of their limits then. They stay as they were.
    pub(crate) fn change(self, options: &mut Options, value: i32, is_stream: bool) -> Result<(), Errno> {
        let mut changed = *options;
        self.set(&mut changed, value)?;
        let checked = if is_stream { changed.check::<Stream>() } else { changed.check::<Messages>() };
        checked.map_err(|error| error.errno())?;
        *options = changed;
        Ok(())
    }

    /// Sets the option. Its limits are not checked, but for those of its type.
    ///
    /// # Errors
    /// `EINVAL`.
    fn set(self, options: &mut Options, value: i32) -> Result<(), Errno> {
        let long = u32::try_from(value).map_err(|_| Errno::INVAL)?;
        let short = u16::try_from(long).map_err(|_| Errno::INVAL);
        match self {
            Self::SmallPacketMax => options.small_packet_max = long,
            Self::SendCredits => options.send_credits = short?,
            Self::RecvCredits => options.recv_credits = short?,
            Self::Window => options.window = short?,
            Self::Adverts => options.adverts = short?,
            Self::Ring => options.ring = long,
            Self::DirectMin => options.direct_min = long,
            Self::Plain => {
                options.plain = match long {
                    0 => Plain::Off,
                    1 => Plain::Accept,
                    2 => Plain::Always,
                    _ => return Err(Errno::INVAL),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_has_its_number() {
        let mut options = Options::default();
        for number in 1..=7 {
            let setting = Setting::of(number).unwrap();
            setting.set(&mut options, 100 + number).unwrap();
            assert_eq!(setting.value(&options), 100 + number);
            assert_eq!(setting.set(&mut options, -1), Err(Errno::INVAL));
        }
        assert_eq!(
            (options.small_packet_max, options.send_credits, options.recv_credits, options.window),
            (101, 102, 103, 104)
        );
        assert_eq!((options.adverts, options.ring, options.direct_min), (105, 106, 107));
        let plain = Setting::of(8).unwrap();
        for (number, value) in [(1, Plain::Accept), (2, Plain::Always), (0, Plain::Off)] {
            plain.set(&mut options, number).unwrap();
            assert_eq!((options.plain, plain.value(&options)), (value, number));
        }
        assert_eq!([3, -1].map(|number| plain.set(&mut options, number)), [Err(Errno::INVAL); 2]);
        assert_eq!(Setting::of(0).and(Setting::of(9)), Err(Errno::INVAL));
    }

    #[test]
    fn an_option_out_of_its_limits_changes_nothing() {
        let mut options = Options::default();
        let bad =
            [(1, (16 << 20) + 1), (2, 0), (2, 1025), (3, 0), (4, 7), (4, 1025), (5, 0), (5, 257), (6, 100)];
        for (number, value) in bad {
            let refused = Setting::of(number).unwrap().change(&mut options, value, true);
            assert_eq!((refused, options), (Err(Errno::INVAL), Options::default()), "{number}: {value}");
        }
        assert_eq!(Setting::Plain.change(&mut options, 2, false), Err(Errno::INVAL));
        assert_eq!(Setting::Plain.change(&mut options, 2, true), Ok(()));
        // All slots together have a limit, so that the window comes first.
        let mut options = Options::default();
        assert_eq!(Setting::SmallPacketMax.change(&mut options, 16 << 20, false), Err(Errno::INVAL));
        assert_eq!(Setting::Window.change(&mut options, 8, false), Ok(()));
        assert_eq!(Setting::SmallPacketMax.change(&mut options, 16 << 20, false), Ok(()));
    }
}
