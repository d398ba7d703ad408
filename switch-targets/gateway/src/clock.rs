//! This computer's clock against the controller's.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::fault::{Fault, Outcome};

/// The most that the clocks may differ, in seconds: certificates begin this long before they are issued.
const MOST: i64 = 300;
const DAY: i64 = 86_400;

/// Seconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Compares with the field `now` of a controller's answer.
pub fn check(answer: &Value) -> Outcome<()> {
    let Some(theirs) = answer["now"].as_str().and_then(parse) else {
        return Ok(());
    };
    let ahead = now() - theirs;
    if ahead.abs() <= MOST {
        return Ok(());
    }
    let way = if ahead > 0 { "ahead of" } else { "behind" };
    Err(Fault::new(
        format!(
            "This computer's clock is {} s {way} the controller's.",
            ahead.abs()
        ),
        "Set the clock of the one that is wrong (timedatectl set-ntp true), and run the same command again.",
    ))
}

/// Reads "2026-11-27T00:12:23…Z" (RFC 3339), to the second.
fn parse(text: &str) -> Option<i64> {
    let part = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (part(0..4)?, part(5..7)?, part(8..10)?);
    let (hour, minute, second) = (part(11..13)?, part(14..16)?, part(17..19)?);
    // Days since 1970 of the Gregorian calendar, with years that begin in March.
    let (years, months) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * years + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day
        - 719_469;
    Some(days * DAY + hour * 3600 + minute * 60 + second)
}

/// "2026-11-27" of seconds since 1970.
pub fn date(seconds: i64) -> String {
    let mut days = seconds.div_euclid(DAY);
    let mut year = 1970;
    loop {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let long = if leap { 366 } else { 365 };
        if days >= long {
            days -= long;
            year += 1;
            continue;
        }
        let february = if leap { 29 } else { 28 };
        let mut month = 1;
        for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
            if days < length {
                break;
            }
            days -= length;
            month += 1;
        }
        return format!("{year}-{month:02}-{:02}", days + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        for (text, seconds, day) in [
            ("1970-01-01T00:00:00Z", 0, "1970-01-01"),
            ("2024-02-29T12:00:00.123456Z", 1_709_208_000, "2024-02-29"),
            ("2026-11-27T00:12:23+00:00", 1_795_738_343, "2026-11-27"),
            ("2100-03-01T00:00:00Z", 4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(parse(text), Some(seconds));
            assert_eq!(date(seconds), day);
        }
        assert_eq!(parse("soon"), None);
    }

    #[test]
    fn a_wrong_clock_is_said() {
        let answer = |at: &str| serde_json::json!({ "now": at });
        assert!(
            check(&answer("1999-01-01T00:00:00Z")).is_err_and(|it| it.what.contains("ahead of"))
        );
        assert!(check(&answer("2999-01-01T00:00:00Z")).is_err_and(|it| it.what.contains("behind")));
    }
}
