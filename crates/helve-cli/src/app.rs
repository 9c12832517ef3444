//! What every command has at hand: the terminal and the configuration.

use helve_host::Remark;
use helve_host::config::{Inputs, Loaded, load};

use crate::args::Global;
use crate::failure::Failure;
use crate::ui::{Ui, escape};

/// What every command has at hand.
pub(crate) struct App<'u> {
    pub(crate) ui: &'u mut Ui,
    pub(crate) inputs: Inputs,
}

impl<'u> App<'u> {
    pub(crate) fn new(ui: &'u mut Ui, global: Global) -> Result<Self, Failure> {
        let work_dir = std::env::current_dir().map_err(|error| {
            Failure::usage("the current folder cannot be used; change to one that exists").because(&error)
        })?;
        let inputs = Inputs { config: global.config, sets: global.sets, ..Inputs::of_process(work_dir) };
        Ok(Self { ui, inputs })
    }

    /// Reads the configuration, and passes on what should be known about it. Commands that need none
    /// do not fail by a broken one.
    pub(crate) fn load_config(&mut self) -> Result<Loaded, Failure> {
        let loaded = load(&self.inputs)?;
        self.note(&loaded.set_aside);
        self.note(&loaded.remarks);
        Ok(loaded)
    }

    /// Passes on what should be known.
    pub(crate) fn note(&mut self, remarks: &[Remark]) {
        for remark in remarks {
            // Standard error may be closed; there is nobody left to tell.
            // Only what was found is cut: what to do about it is there to be copied.
            let (found, fix) =
                (escape::one_line(&remark.found, 600), escape::one_line(&remark.fix, usize::MAX));
            let _ = self.ui.note(format!("note: {found}; {fix}"));
        }
    }
}
