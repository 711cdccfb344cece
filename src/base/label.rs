//! Enumerations that are the values of a label, an attribute, a log field or a member of JSON.

/// An enumeration with all its values, in their order, and their text. Where each also has words for people, they are
/// `words`.
macro_rules! label_values {
    ($(#[$meta:meta])* $vis:vis enum $set:ident { $($(#[$doc:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $set { $($(#[$doc])* $value,)* }

        impl $set {
            $vis const ALL: [Self; [$($text),*].len()] = [$(Self::$value),*];

            $vis fn as_str(self) -> &'static str {
                match self { $(Self::$value => $text,)* }
            }
        }

        // Some are used by tests alone.
        const _: &[$set] = &$set::ALL;
    };
    ($(#[$meta:meta])* $vis:vis enum $set:ident { $($value:ident = $text:literal, $words:literal;)* }) => {
        $crate::base::label::label_values! { $(#[$meta])* $vis enum $set { $($value = $text,)* } }

        impl $set {
            fn words(self) -> &'static str {
                match self { $(Self::$value => $words,)* }
            }
        }
    };
}
pub(crate) use label_values;
