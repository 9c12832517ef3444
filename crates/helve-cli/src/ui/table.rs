//! Tables: coloured and fitted to the terminal, or plain aligned columns in a pipe.

use comfy_table::{Attribute, Color, ColumnConstraint, ContentArrangement, Width, presets};
use unicode_width::UnicodeWidthStr as _;

use super::Paint;
use super::escape::{one_line, visible};

/// Longest text in one cell. A description may hold 16 KiB.
const CELL_CHARS_MAX: usize = 400;

/// How a cell stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Strong,
    Dim,
    Good,
    Warn,
    Bad,
}

impl Tone {
    pub(crate) fn paint(self, paint: Paint, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Strong => paint.accent(text),
            Self::Dim => paint.dim(text),
            Self::Good => paint.good(text),
            Self::Warn => paint.warn(text),
            Self::Bad => paint.bad(text),
        }
    }
}

/// One cell. Its text is untrusted.
pub(crate) struct Cell {
    text: String,
    tone: Tone,
    /// Whether it is to be copied as a whole: it is never cut, and no line is broken in it.
    is_whole: bool,
}

impl Cell {
    pub(crate) fn new(text: impl AsRef<str>, tone: Tone) -> Self {
        Self { text: one_line(text.as_ref(), CELL_CHARS_MAX), tone, is_whole: false }
    }

    /// What people copy: a command, a link. It stands on one line however narrow the terminal is.
    pub(crate) fn to_copy(text: impl AsRef<str>, tone: Tone) -> Self {
        Self { text: one_line(text.as_ref(), usize::MAX), tone, is_whole: true }
    }

    /// Prose that is never cut, because what it ends with is to be copied. It may wrap, but not in `code`.
    pub(crate) fn uncut(text: impl AsRef<str>, tone: Tone) -> Self {
        Self { is_whole: false, ..Self::to_copy(text, tone) }
    }
}

/// A paragraph as a table of one column: wrapped at words on a terminal.
pub(super) fn paragraph(text: &str) -> Table {
    let mut table = Table::bare().indented();
    for line in visible(text).lines() {
        table.row([Cell { text: line.replace('\t', " "), tone: Tone::Plain, is_whole: false }]);
    }
    table
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// What a table gives up, step by step, to fit a terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Yield {
    /// Cuts the cells of this column, to no less than this width.
    Cut(usize, u16),
    /// Leaves this column out.
    Drop(usize),
}

/// Below this width rows are stacked: columns would be a word wide.
const STACKED_BELOW: u16 = 60;

/// The space between columns.
const GAP: u16 = 2;

/// Rows under headings.
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    indent: u16,
    /// Of a table with one line a row. Any other wraps.
    yields: Option<&'static [Yield]>,
}

impl Table {
    pub(crate) fn new<const N: usize>(headings: [&'static str; N]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new(), indent: 0, yields: None }
    }

    /// A table without headings.
    pub(crate) fn bare() -> Self {
        Self::new([])
    }

    /// Moves the whole table to the right.
    pub(crate) fn indented(mut self) -> Self {
        self.indent = 2;
        self
    }

    /// Keeps each row on one line of a terminal. Where it does not fit, the table gives up the least
    /// that is enough, in this order.
    pub(crate) fn one_line_rows(mut self, yields: &'static [Yield]) -> Self {
        self.yields = Some(yields);
        self
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.into());
    }

    /// The table as lines. `width` is the terminal's; in a pipe nothing is wrapped.
    pub(crate) fn render(self, paint: Paint, width: Option<u16>) -> Vec<String> {
        self.render_page(paint, width, &mut Columns::default())
    }

    /// One page of a table that is too long to be kept whole. The first has the headings, and each keeps the
    /// columns at least as wide as they were.
    pub(crate) fn render_page(mut self, paint: Paint, width: Option<u16>, page: &mut Columns) -> Vec<String> {
        let columns = self.rows.first().map_or(0, Vec::len);
        if width.is_some_and(|width| width < STACKED_BELOW) && columns > 1 {
            return self.stacked(paint);
        }
        if page.is_later() {
            self.headings.clear();
        }
        let widths = page.grown_to(self.grid(paint).column_max_content_widths());
        let Some(width) = width else { return self.laid_out(paint, Layout::Whole(widths)) };
        let Some(yields) = self.yields else {
            return self.wrapped(width).laid_out(paint, Layout::Whole(Vec::new()));
        };
        match (0..=yields.len()).find_map(|steps| fit(&widths, &yields[..steps], width)) {
            Some(widths) => self.laid_out(paint, Layout::Fitted(widths)),
            None => self.stacked(paint),
        }
    }

    fn grid(&self, paint: Paint) -> comfy_table::Table {
        let mut grid = comfy_table::Table::new();
        grid.load_style(presets::NOTHING).force_no_tty().set_truncation_indicator("…");
        if paint == Paint::Colour {
            grid.enforce_styling();
        }
        if !self.headings.is_empty() {
            grid.set_header(self.headings.iter().map(|text| {
                comfy_table::Cell::new(text)
                    .add_attribute(Attribute::Bold)
                    .add_attribute(Attribute::Underlined)
            }));
        }
        for row in &self.rows {
            let mut row = comfy_table::Row::from(row.iter().map(styled).collect::<Vec<_>>());
            if self.yields.is_some() {
                row.max_height(1);
            }
            grid.add_row(row);
        }
        for (index, column) in grid.column_iter_mut().enumerate() {
            column.set_padding((if index == 0 { self.indent } else { 0 }, GAP));
        }
        grid
    }

    fn laid_out(&self, paint: Paint, layout: Layout) -> Vec<String> {
        let mut grid = self.grid(paint);
        match layout {
            Layout::Whole(widths) => {
                for (index, (column, width)) in grid.column_iter_mut().zip(widths).enumerate() {
                    let indent = if index == 0 { self.indent } else { 0 };
                    let least = Width::Fixed(width.saturating_add(GAP + indent));
                    column.set_constraint(ColumnConstraint::LowerBoundary(least));
                }
            }
            Layout::Fitted(widths) => {
                grid.set_content_arrangement(ContentArrangement::Dynamic);
                for (column, width) in grid.column_iter_mut().zip(widths) {
                    column.set_constraint(match width {
                        Some(width) => ColumnConstraint::Absolute(Width::Fixed(width + GAP)),
                        None => ColumnConstraint::Hidden,
                    });
                }
            }
        }
        grid.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// The same with text that wraps to fit this width, as far as it may.
    fn wrapped(mut self, width: u16) -> Self {
        let widths = self.grid(Paint::Plain).column_max_content_widths();
        let room = shares(&widths, width.saturating_sub(self.indent));
        for row in &mut self.rows {
            for (cell, room) in row.iter_mut().zip(&room) {
                if !cell.is_whole {
                    cell.text = wrap(&cell.text, (*room).into());
                }
            }
        }
        self
    }

    /// Each cell after its heading on its own line, or, without headings, the cells of a row on
    /// one line that the terminal may wrap.
    fn stacked(&self, paint: Paint) -> Vec<String> {
        let indent = " ".repeat(usize::from(self.indent));
        let mut lines = Vec::new();
        let painted = |cell: &Cell| cell.tone.paint(paint, &cell.text);
        for row in &self.rows {
            if self.headings.is_empty() {
                let cells = row.iter().filter(|cell| !cell.text.is_empty()).map(painted);
                lines.push(format!("{indent}{}", cells.collect::<Vec<_>>().join("  ")));
                continue;
            }
            if !lines.is_empty() {
                lines.push(String::new());
            }
            for (heading, cell) in self.headings.iter().zip(row).filter(|(_, cell)| !cell.text.is_empty()) {
                let name = if heading.is_empty() { String::new() } else { paint.dim(format!("{heading}: ")) };
                lines.push(format!("{name}{}", painted(cell)));
            }
        }
        lines
    }
}

/// How wide the columns of a table are so far that comes page by page.
#[derive(Debug, Default)]
pub(crate) struct Columns(Vec<u16>);

impl Columns {
    /// Whether there was a page already.
    pub(crate) fn is_later(&self) -> bool {
        !self.0.is_empty()
    }

    fn grown_to(&mut self, widths: Vec<u16>) -> Vec<u16> {
        self.0.resize(widths.len().max(self.0.len()), 0);
        self.0.iter_mut().zip(widths).for_each(|(width, needed)| *width = needed.max(*width));
        self.0.clone()
    }
}

/// How a table lies on a screen.
enum Layout {
    /// As wide as it is, with columns of these widths at least.
    Whole(Vec<u16>),
    /// Columns of these widths, those without one left out.
    Fitted(Vec<Option<u16>>),
}

/// How wide each column may be. Those that need less than an equal share keep what they need, and the others
/// share the rest.
fn shares(widths: &[u16], screen: u16) -> Vec<u16> {
    let gaps = GAP.saturating_mul(u16::try_from(widths.len().saturating_sub(1)).unwrap_or(u16::MAX));
    let mut room = screen.saturating_sub(gaps);
    let mut shares = widths.to_vec();
    let mut wide: Vec<usize> = (0..widths.len()).collect();
    while !wide.is_empty() {
        let share = room / u16::try_from(wide.len()).unwrap_or(u16::MAX);
        let (narrow, rest): (Vec<_>, Vec<_>) = wide.iter().partition(|index| widths[**index] <= share);
        if narrow.is_empty() {
            rest.iter().for_each(|index| shares[*index] = share);
            break;
        }
        room = narrow.iter().fold(room, |room, index| room.saturating_sub(widths[*index]));
        wide = rest;
    }
    shares
}

/// Breaks text at spaces into lines of a width. A word, and what stands in `backticks`, is never broken: it is
/// there to be copied, and the terminal may wrap it.
fn wrap(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = vec![String::new()];
    for atom in atoms(text) {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(&atom),
            Some(line) if line.width() + 1 + atom.width() <= width => {
                line.push(' ');
                line.push_str(&atom);
            }
            Some(_) | None => lines.push(atom),
        }
    }
    lines.join("\n")
}

/// Words, with those that stand together in backticks as one.
fn atoms(text: &str) -> Vec<String> {
    let mut atoms: Vec<String> = Vec::new();
    let mut is_open = false;
    for word in text.split(' ') {
        match atoms.last_mut().filter(|_| is_open) {
            Some(atom) => {
                atom.push(' ');
                atom.push_str(word);
            }
            None => atoms.push(word.to_owned()),
        }
        is_open ^= word.matches('`').count() % 2 == 1;
    }
    atoms
}

/// The widths of the columns where giving up this much is enough.
fn fit(widths: &[u16], yields: &[Yield], screen: u16) -> Option<Vec<Option<u16>>> {
    let mut kept: Vec<_> = widths.iter().copied().map(Some).collect();
    for one in yields {
        if let Yield::Drop(index) = one {
            kept[*index] = None;
        }
    }
    let total: u16 = kept.iter().flatten().fold(0, |sum, width| sum.saturating_add(width + GAP));
    let mut excess = total.saturating_sub(GAP).saturating_sub(screen);
    for one in yields {
        if let Yield::Cut(index, least) = one
            && let Some(width) = &mut kept[*index]
        {
            let cut = excess.min(width.saturating_sub(*least));
            *width -= cut;
            excess -= cut;
        }
    }
    (excess == 0).then_some(kept)
}

fn styled(cell: &Cell) -> comfy_table::Cell {
    let styled = comfy_table::Cell::new(&cell.text);
    match cell.tone {
        Tone::Plain => styled,
        Tone::Strong => styled.fg(Color::Cyan),
        Tone::Dim => styled.add_attribute(Attribute::Dim),
        Tone::Good => styled.fg(Color::Green),
        Tone::Warn => styled.fg(Color::Yellow),
        Tone::Bad => styled.fg(Color::Red),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_pipe_columns_are_aligned_and_plain() {
        let mut table = Table::new(["name", "what"]);
        table.row(["a".into(), "first\nline".into()]);
        table.row(["longer".into(), Cell::new("\u{1b}[2J", Tone::Bad)]);
        assert_eq!(
            table.render(Paint::Plain, None),
            ["name    what", "a       first line", "longer  \\u{1b}[2J"]
        );
    }

    #[test]
    fn later_pages_have_the_columns_of_the_first_and_no_headings() {
        let page = |name: &str, columns: &mut Columns, width| {
            let mut table = Table::new(["name", "what"]).one_line_rows(&[]);
            table.row([name.into(), "x".into()]);
            table.render_page(Paint::Plain, width, columns)
        };
        for width in [None, Some(80)] {
            let mut columns = Columns::default();
            assert_eq!(page("longer", &mut columns, width), ["name    what", "longer  x"]);
            assert_eq!(page("a", &mut columns, width), ["a       x"]);
            assert_eq!(page("the longest", &mut columns, width), ["the longest  x"], "nothing is cut");
        }
    }

    fn wide() -> Table {
        let mut table = Table::new(["name", "note", "text"]).one_line_rows(&[
            Yield::Cut(2, 10),
            Yield::Drop(1),
            Yield::Cut(2, 5),
        ]);
        table.row(["n".repeat(30).into(), "a note of some length".into(), "word ".repeat(20).into()]);
        table
    }

    #[test]
    fn a_table_gives_up_the_least_that_is_enough() {
        let line = |width| wide().render(Paint::Plain, Some(width)).pop().unwrap();
        let name = "n".repeat(30);
        assert!(line(200).ends_with("word word"));
        assert!(line(80).starts_with(&format!("{name}  a note of some length  word word")));
        assert!(line(60).starts_with(&format!("{name}  word word")));
        for width in 60..200 {
            let lines = wide().render(Paint::Plain, Some(width));
            assert!(
                lines.len() == 2 && lines.iter().all(|line| line.chars().count() <= width.into()),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn what_is_to_be_copied_stands_on_one_line_at_any_width() {
        let command = "claude mcp add --transport http helve http://127.0.0.1:7777/mcp --header \"x\"";
        let long = format!("http://127.0.0.1/{}", "x".repeat(600));
        let prose =
            format!("{}mend it with `helve audit accept --head 12` and look again", "word ".repeat(100));
        for width in 1..300 {
            let mut table = Table::bare().indented();
            table.row([Cell::new("Claude Code", Tone::Dim), Cell::to_copy(command, Tone::Strong)]);
            table.row([Cell::new("link", Tone::Dim), Cell::to_copy(&long, Tone::Strong)]);
            table.row(["".into(), Cell::uncut(&prose, Tone::Warn)]);
            let lines = table.render(Paint::Plain, Some(width));
            for whole in [command, &long, "`helve audit accept --head 12`"] {
                assert!(lines.iter().any(|line| line.contains(whole)), "{width}: {lines:#?}");
            }
        }
    }

    #[test]
    fn prose_wraps_at_words_and_fills_its_column() {
        assert_eq!(wrap("a bb ccc dddd", 6), "a bb\nccc\ndddd");
        assert_eq!(wrap("see `a b c` now", 6), "see\n`a b c`\nnow");
        assert_eq!(wrap("an ` alone", 4), "an\n` alone");
        assert_eq!(shares(&[3, 100, 5], 50), [3, 38, 5]);
        assert_eq!(shares(&[60, 60], 42), [20, 20]);
    }

    #[test]
    fn on_a_narrow_terminal_rows_are_stacked() {
        let lines = wide().render(Paint::Plain, Some(40));
        assert_eq!(
            lines[..2],
            [format!("name: {}", "n".repeat(30)), "note: a note of some length".to_owned()]
        );
        let mut bare = Table::bare().indented();
        bare.row(["✓".into(), "".into(), "found".into()]);
        assert_eq!(bare.render(Paint::Plain, Some(40)), ["  ✓  found"]);
    }
}
