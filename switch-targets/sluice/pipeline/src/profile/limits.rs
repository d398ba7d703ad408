//! Capacity of a profile, and a member's part of it.

use crate::error::ProfileError;

/// Capacity of a profile (P4Runtime section 6.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileLimits {
    /// Members; of all groups together the sum that `measure` says, and groups.
    pub size: u64,
    /// The sum for one group; 0 means `size`.
    pub max_group_size: u32,
    pub measure: GroupSize,
    /// Members carry weights. Otherwise each has weight 0, and all are as likely.
    pub weights: bool,
}

/// Measure of a group's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupSize {
    SumOfWeights,
    SumOfMembers {
        /// Weight of one member at most; 0 is any.
        max_weight: u32,
    },
}

impl ProfileLimits {
    pub fn check_weight(&self, weight: u32) -> Result<(), ProfileError> {
        let cause = match self.measure {
            _ if !self.weights && weight > 0 => "the profile allows no weights",
            _ if self.weights && weight == 0 => "it must be 1 at least",
            GroupSize::SumOfMembers { max_weight } if max_weight > 0 && weight > max_weight => {
                "it is above the profile's max_member_weight"
            }
            _ => return Ok(()),
        };
        Err(ProfileError::BadWeight { weight, cause })
    }

    pub fn measure(&self, weights: impl Iterator<Item = u32>) -> u64 {
        match self.measure {
            GroupSize::SumOfWeights => weights.map(|weight| u64::from(weight.max(1))).sum(),
            GroupSize::SumOfMembers { .. } => weights.count() as u64,
        }
    }
}
