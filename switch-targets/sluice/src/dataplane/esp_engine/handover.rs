//! Engines on their way to another process.

use esp::handover::EngineState;

use super::Engines;

/// An engine on its way to another process.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GivenEngine {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, required, tag = "2")]
    pub state: EngineState,
}

impl Engines {
    pub fn snapshot(&self) -> Vec<GivenEngine> {
        let by_name = self.by_name.lock();
        let engines = by_name.iter();
        engines
            .map(|(name, engine)| GivenEngine {
                name: name.clone(),
                state: engine.snapshot(),
            })
            .collect()
    }

    /// Goes on where the engines of another process stopped, also those that no program names any longer. Returns the number of SAs
    /// that go on.
    ///
    /// # Errors
    /// As [`esp::engine::Engine::restore`].
    pub fn restore(&self, given: &[GivenEngine]) -> Result<usize, String> {
        let mut taken = 0;
        for GivenEngine { name, state } in given {
            let restored = self.engine(name)?.restore(state);
            taken += restored.map_err(|error| error.to_string())?;
        }
        Ok(taken)
    }
}
