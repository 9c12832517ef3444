//! Windows' names for zones, by CLDR's table.

/// One zone a line: its name in Windows, its IANA zone for the whole world, and what Windows shows for it.
/// `tests/tables/make_windows_zones.py` writes it and says from what.
const TABLE: &str = include_str!("windows_zones.txt");

struct Row {
    windows: &'static str,
    iana: &'static str,
    shown: &'static str,
}

fn rows() -> impl Iterator<Item = Row> {
    TABLE.lines().filter_map(|line| {
        let mut fields = line.split('\t');
        Some(Row { windows: fields.next()?, iana: fields.next()?, shown: fields.next()? })
    })
}

/// The IANA name for a Windows name such as `W. Europe Standard Time`.
pub fn iana_for_windows(name: &str) -> Option<&'static str> {
    rows().find(|row| row.windows.eq_ignore_ascii_case(name.trim())).map(|row| row.iana)
}

/// The IANA name for what Windows shows, such as `(UTC+01:00) Amsterdam, Berlin, Bern`: the zone whose list has
/// all of these cities. Releases of Windows show different parts of the list.
pub fn iana_for_display(name: &str) -> Option<&'static str> {
    let (offset, places) = name.trim().strip_prefix('(')?.split_once(')')?;
    if !offset.starts_with("UTC") && !offset.starts_with("GMT") {
        return None;
    }
    let places: Vec<&str> = places.split(',').map(str::trim).filter(|place| !place.is_empty()).collect();
    let is_shown =
        |row: &Row, place: &str| row.shown.split(", ").any(|shown| shown.eq_ignore_ascii_case(place));
    rows()
        .find(|row| !places.is_empty() && places.iter().all(|place| is_shown(row, place)))
        .map(|row| row.iana)
}
