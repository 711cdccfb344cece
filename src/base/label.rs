//! Enumerations that are the values of a label, of a log field or of a JSON member.

/// An enumeration with all its values, in their order, and their text.
macro_rules! label_values {
    ($(#[$meta:meta])* $set:ident { $($(#[$doc:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $set { $($(#[$doc])* $value,)* }

        impl $set {
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$value),*];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$value => $text,)* }
            }
        }
    };
}
pub(crate) use label_values;
