//! What a local time means: zones by whatever name they go, and the rules for times that a clock skips or repeats.
//!
//! | written | read as |
//! |---|---|
//! | `20260301T120000Z` | UTC |
//! | `20260301T120000` without `TZID` | floating: the clock of the person who asks |
//! | `TZID=Europe/Berlin` | the IANA zone, whatever `VTIMEZONE` the file brings: those often know one year only |
//! | `TZID=/mozilla.org/20050126_1/Europe/Berlin` | the IANA zone at its end |
//! | `TZID=W. Europe Standard Time` | the IANA zone that CLDR gives for the Windows name |
//! | any other `TZID` with a `VTIMEZONE` | its `X-LIC-LOCATION` if that names an IANA zone, else its observances |
//! | `TZID="(UTC+01:00) Amsterdam, Berlin"` without one | the Windows zone that is shown with these cities |
//! | `TZID=UTC+02:00` without one | that offset |
//! | any other `TZID` | an [`UnknownZone`]: a guess would show a wrong time |
//!
//! Two rules of RFC 5545 (3.3.5) hold everywhere, also for occurrences of a series (3.8.5.3). A local time in a
//! *gap*, which the clock skips, is read with the offset before the gap, so 02:30 becomes 03:30. A local time in a
//! *fold*, which comes twice, is the first of the two.

mod custom;
mod observances;
mod resolve;
mod windows;
mod write;
mod zone;

pub use custom::{BrokenZone, CustomZone};
pub use resolve::{UnknownZone, ZoneTable};
pub use windows::{iana_for_display, iana_for_windows};
pub use write::vtimezone;
pub use zone::{Clock, Moment, Zone};
