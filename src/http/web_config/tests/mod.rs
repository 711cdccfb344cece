//! Documents and what becomes of them; passwords; the limits of what is remembered.

mod documents;
mod passwords;
