//! Events that strangers can cause are logged once, then counted and summed up each minute, so that a flood does not fill the log.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::warn;

/// Between two summaries.
const EVERY: Duration = Duration::from_secs(60);

/// The cause for which a connection was refused or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// The connection's address is in no prefix of `--allow-from`.
    NotAllowed,
    /// The connection was closed for a newer one.
    Crowded,
    /// The connection's TLS handshake did not end in time.
    Slow,
    /// The connection failed its TLS handshake.
    Handshake,
    /// The connection showed a certificate, but clients with calls under way have all places.
    Busy,
    /// The operating system gave no connection, most likely for want of file descriptors.
    Unaccepted,
    /// A controller's name has no address.
    Unresolved,
    /// The switch has dialled a controller in vain.
    Undialled,
    /// The connection's user may not use the control socket.
    Foreign,
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotAllowed => "refused a connection: its address is in no --allow-from",
            Self::Crowded => "dropped an old connection without a TLS handshake for a newer one",
            Self::Slow => "refused a connection: no TLS handshake in time",
            Self::Handshake => "refused a connection",
            Self::Busy => "refused a connection: all clients that may be connected have calls under way",
            Self::Unaccepted => "cannot accept a connection",
            Self::Unresolved => "cannot resolve a controller's name",
            Self::Undialled => "cannot connect to a controller",
            Self::Foreign => "refused a user on the control socket: only root and the switch's own user may use it",
        })
    }
}

/// The conditions of the whole process.
#[derive(Debug, Default)]
pub struct Conditions(Mutex<BTreeMap<Condition, Counted>>);

#[derive(Debug, Default)]
struct Counted {
    /// Occurrences since the last line.
    more: u64,
    last: String,
}

impl Conditions {
    /// `detail` has the connection's source, and the cause.
    pub fn met(&self, condition: Condition, detail: impl fmt::Display) {
        if self.is_new(condition, &detail) {
            warn!(%detail, "{condition}");
        }
    }

    /// Logs a summary each minute until the process ends.
    pub async fn sum_up(&self) {
        loop {
            tokio::time::sleep(EVERY).await;
            for (condition, more, last) in self.sums() {
                warn!(more, last, "{condition}: as often since the last line");
            }
        }
    }

    fn is_new(&self, condition: Condition, detail: &impl fmt::Display) -> bool {
        let mut conditions = self.0.lock();
        match conditions.get_mut(&condition) {
            Some(counted) => {
                counted.more += 1;
                counted.last = detail.to_string();
                false
            }
            None => conditions.insert(condition, Counted::default()).is_none(),
        }
    }

    /// The conditions that occurred since the previous summary. A condition that did not counts as new when it occurs again.
    fn sums(&self) -> Vec<(Condition, u64, String)> {
        let mut conditions = self.0.lock();
        conditions.retain(|_, counted| counted.more > 0);
        let sums = conditions.iter_mut();
        sums.map(|(condition, counted)| {
            let counted = std::mem::take(counted);
            (*condition, counted.more, counted.last)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_said_once_then_counted_until_it_ends() {
        let conditions = Conditions::default();
        assert!(conditions.is_new(Condition::Slow, &"a"));
        for detail in ["b", "c"] {
            assert!(!conditions.is_new(Condition::Slow, &detail));
        }
        assert!(conditions.is_new(Condition::Handshake, &"d"));
        assert_eq!(conditions.sums(), [(Condition::Slow, 2, "c".to_owned())]);
        assert!(!conditions.is_new(Condition::Slow, &"e"));
        assert_eq!(conditions.sums().len(), 1);
        assert_eq!(conditions.sums(), []);
        assert!(conditions.is_new(Condition::Slow, &"f"));
    }
}
