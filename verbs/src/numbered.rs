//! Enumerations whose numbers stand in rings: numbers, decoding and, if there are any, names come from one table.

/// Declares an enumeration with `ALL`, `from_number` and `NUMBERS`, which is one more than the largest number.
macro_rules! numbered {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$doc:meta])* $variant:ident = $number:literal $($text:literal)?,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        $vis enum $name {
            $($(#[$doc])* $variant = $number,)*
        }

        impl $name {
            /// All of them.
            $vis const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// One more than the largest number.
            $vis const NUMBERS: usize = {
                let (mut most, mut index) = (0, 0);
                while index < Self::ALL.len() {
                    if Self::ALL[index] as usize > most {
                        most = Self::ALL[index] as usize;
                    }
                    index += 1;
                }
                most + 1
            };

            /// Returns the one with this number.
            #[inline]
            pub(crate) const fn from_number(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        $crate::numbered::numbered!(@text $name $($variant $($text)?,)*);
    };
    (@text $name:ident $($variant:ident $text:literal,)*) => {
        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $text,)*
                })
            }
        }
    };
    (@text $name:ident $($variant:ident,)*) => {};
}

pub(crate) use numbered;
