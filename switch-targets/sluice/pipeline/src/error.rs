//! Causes for which a program does not load, and for which a table refuses an entry.

/// The program can't be run here: it is malformed, or it uses what this crate does not execute.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {cause}")]
pub struct LoadError {
    /// Place in the JSON, as a path: `actions[13].primitives[2].op`.
    pub place: String,
    pub cause: String,
}

/// A control-plane operation on a table was refused; the table is as before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    #[error("no such table, counter, meter or action")]
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
    #[error("the table has no direct meter")]
    NoDirectMeter,
    #[error("the table has no action profile: its entries run actions")]
    NoProfile,
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error("index {index} is outside the array of {size}")]
    BadIndex { index: usize, size: usize },
}

/// An operation on an action profile was refused; the profile is as before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    #[error("a member with id {id} exists")]
    MemberExists { id: u32 },
    #[error("a group with id {id} exists")]
    GroupExists { id: u32 },
    #[error("no member has the id {id}")]
    NoMember { id: u32 },
    #[error("no group has the id {id}")]
    NoGroup { id: u32 },
    #[error("member {id} is in a group, or an entry names it")]
    MemberInUse { id: u32 },
    #[error("an entry names group {id}")]
    GroupInUse { id: u32 },
    #[error("member {id} is given twice: give it a weight instead")]
    MemberTwice { id: u32 },
    #[error("weight {weight}: {cause}")]
    BadWeight { weight: u32, cause: &'static str },
    #[error("max_size is above the profile's max_group_size of {most}")]
    BadMaxSize { most: u32 },
    #[error("max_size can't be changed: it is {was}")]
    OtherMaxSize { was: u32 },
    #[error("the group would have size {size}, and {most} is the most")]
    GroupFull { size: u64, most: u32 },
    #[error("the action set has size {size}, and max_group_size is {most}")]
    SetTooLarge { size: u64, most: u32 },
    #[error("the action profile's size is {size}")]
    Full { size: u64 },
    #[error("the action profile has no selector, and so no groups")]
    NoSelector,
    #[error("the table has an action profile: its entries name members or groups of it")]
    Direct,
    #[error(
        "the profile's entries are one-shots, which do not go together with members and groups"
    )]
    OneShots,
    #[error("the profile has members or groups, which do not go together with one-shots")]
    NotOneShots,
}
