//! Runs: the durable story of calls that change the world or are made of others.
//!
//! A run is resumed after a crash by running it again from its beginning: every part that
//! had finished answers from the record (`part.rs`), and the first one that had not is where it
//! goes on. `undo.rs` takes back what parts did, newest first. `recover.rs` finds what was left,
//! `end.rs` ends what cannot go on.

mod active;
mod claimed;
mod end;
mod here;
mod history;
mod part;
mod phase;
mod progress;
mod recover;
mod settlement;
mod state;
mod story;
mod takeover;
mod undo;
mod watch;

pub use recover::{RecoveredRun, Resumption, RunError};
pub use settlement::Settlement;
pub use state::RunState;
pub use story::{Counts, Standing, Story, StoryWaiting};

pub(crate) use active::{ActiveRun, Done, InFlight, Place, UndoRecord, UndoState, is_below, step};
pub(crate) use end::{Unknown, find_out, leave_dropped, wind_up_dropped};
pub(crate) use here::ActiveRuns;
pub(crate) use history::{Earlier, parse};
pub(crate) use part::{DuePart, FollowUp, cascade, cascade_path, in_doubt, part_of, told, undoes_below};
pub use part::{left_in_doubt, left_standing};
pub(crate) use phase::{Conclusion, EndOf, Event, Halt, OnStop, Phase, Waiting};
pub(crate) use recover::{Undoing, resume, resume_same};
pub use takeover::Recovery;
pub(crate) use undo::{not_kept, undo_below};
pub(crate) use watch::Watch;
