//! What every command has at hand: the terminal and the configuration.

use crate::args::Global;
use crate::config::{Inputs, Loaded, load};
use crate::failure::Failure;
use crate::ui::Ui;

/// What every command has at hand.
pub(crate) struct App<'u> {
    pub(crate) ui: &'u mut Ui,
    pub(crate) inputs: Inputs,
}

impl<'u> App<'u> {
    pub(crate) fn new(ui: &'u mut Ui, global: Global) -> Result<Self, Failure> {
        let work_dir = std::env::current_dir()
            .map_err(|error| Failure::usage("the current folder cannot be used").because(&error))?;
        // A variable that is not text cannot be one of ours.
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let inputs = Inputs { work_dir, config: global.config, sets: global.sets, variables };
        Ok(Self { ui, inputs })
    }

    /// Reads the configuration. Commands that need none do not fail by a broken one.
    pub(crate) fn load_config(&self) -> Result<Loaded, Failure> {
        load(&self.inputs)
    }
}
