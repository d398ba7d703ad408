//! Why a program does not load, and why a table refuses an entry.

/// The program can't be run here: it is malformed, or it uses what this crate does not execute.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {cause}")]
pub struct LoadError {
    /// Where in the JSON, as a path: `actions[13].primitives[2].op`.
    pub place: String,
    pub cause: String,
}

/// A control-plane operation on a table was refused; the table is as before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    #[error("no such table, counter or action")]
    NoSuchObject,
    #[error("an entry with this key exists")]
    Exists,
    #[error("no entry has this key")]
    NotFound,
    #[error("the table holds its {size} entries")]
    Full { size: usize },
    #[error("key field {field}: {cause}")]
    BadKey { field: String, cause: &'static str },
    #[error("the key has {got} fields, the table {expected}")]
    BadKeyLength { got: usize, expected: usize },
    #[error("the table has no key: it holds a default action only")]
    NoKey,
    #[error("priority {got}: {cause}")]
    BadPriority { got: i32, cause: &'static str },
    #[error("action {action} is not one that this table allows here")]
    BadAction { action: String },
    #[error("arguments of action {action}: {cause}")]
    BadArguments { action: String, cause: &'static str },
    #[error("the program fixes this table's entries")]
    ConstTable,
    #[error("the program fixes this table's default action")]
    ConstDefault,
    #[error("the table has no direct counter")]
    NoDirectCounter,
    #[error("the table's entries have no idle timeout")]
    NoIdleTimeout,
    #[error("index {index} is outside the array of {size}")]
    BadIndex { index: usize, size: usize },
}
