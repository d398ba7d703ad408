//! Digests on their way to another process.

use std::time::Instant;

use super::DigestQueue;

#[derive(Clone, PartialEq, prost::Message)]
pub struct DigestState {
    #[prost(uint64, tag = "1")]
    pub last_list_id: u64,
    #[prost(uint64, tag = "2")]
    pub lost: u64,
    #[prost(message, repeated, tag = "3")]
    pub messages: Vec<GivenMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct GivenMessage {
    #[prost(uint32, tag = "1")]
    pub digest_id: u32,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub members: Vec<Vec<u8>>,
}

impl DigestQueue {
    /// The messages that the next primary is to hear, in another process: the primary of this one has acknowledged none of them.
    pub fn snapshot(&self) -> DigestState {
        let mut state = DigestState {
            last_list_id: self.last_list_id,
            lost: self.lost,
            messages: Vec::new(),
        };
        for (digest_id, learner) in &self.learners {
            let sent = learner.unacknowledged.iter().flat_map(|it| &it.messages);
            state
                .messages
                .extend(sent.chain(&learner.buffer).map(|message| GivenMessage {
                    digest_id: *digest_id,
                    members: message.to_vec(),
                }));
        }
        state
    }

    /// Takes the messages of another process for the digests that are enabled here.
    pub fn resume(&mut self, now: Instant, state: DigestState) {
        self.last_list_id = self.last_list_id.max(state.last_list_id);
        self.lost += state.lost;
        for it in state.messages {
            self.push(now, it.digest_id, it.members);
        }
    }
}
