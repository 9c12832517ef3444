//! The one door to standard output and standard error.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use clap::ValueEnum;
use serde::Serialize;

use super::table::Columns;
use super::{Paint, Table, json, table};

/// When to use colour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always, also into a pipe.
    Always,
    /// Never, also on a terminal.
    Never,
}

/// Who reads standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// A person, at a terminal or in a pipe.
    Text,
    /// A program: only JSON is written.
    Json,
}

/// How much is said besides the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) enum Detail {
    /// The answer alone.
    Quiet,
    /// Notes and next steps too.
    Normal,
    /// The log as well.
    Verbose,
}

/// Writes answers to standard output, and notes and errors to standard error.
pub(crate) struct Ui {
    out: BufWriter<Stdout>,
    format: Format,
    detail: Detail,
    paint: Paint,
    error_paint: Paint,
    width: Option<u16>,
}

impl Ui {
    pub(crate) fn new(format: Format, detail: Detail, colour: Colour) -> Self {
        let on_terminal = io::stdout().is_terminal();
        Self {
            out: BufWriter::new(io::stdout()),
            format,
            detail,
            paint: paint(colour, &io::stdout()),
            error_paint: paint(colour, &io::stderr()),
            width: on_terminal.then(terminal_width),
        }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    pub(crate) fn detail(&self) -> Detail {
        self.detail
    }

    /// Paints for standard output.
    pub(crate) fn paint(&self) -> Paint {
        self.paint
    }

    /// Paints for standard error.
    pub(crate) fn error_paint(&self) -> Paint {
        self.error_paint
    }

    /// Whether a person looks at standard output as it comes.
    pub(crate) fn on_terminal(&self) -> bool {
        self.width.is_some()
    }

    /// Whether a person looks at standard error as it comes.
    pub(crate) fn errors_on_terminal(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// The columns of the terminal, where there is one.
    pub(crate) fn width(&self) -> Option<u16> {
        self.width
    }

    /// One line of the answer. Untrusted parts have been through [`super::escape`].
    pub(crate) fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self.out, "{text}").map_err(unwritten)
    }

    /// Text of the answer, as it is.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes()).map_err(unwritten)
    }

    pub(crate) fn table(&mut self, table: Table) -> io::Result<()> {
        for line in table.render(self.paint, self.width) {
            self.line(line)?;
        }
        Ok(())
    }

    /// One page of a table that is too long to be kept whole.
    pub(crate) fn table_page(&mut self, table: Table, columns: &mut Columns) -> io::Result<()> {
        for line in table.render_page(self.paint, self.width, columns) {
            self.line(line)?;
        }
        Ok(())
    }

    /// Untrusted text, indented, wrapped at words on a terminal.
    pub(crate) fn paragraph(&mut self, text: &str) -> io::Result<()> {
        self.table(table::paragraph(text))
    }

    /// One JSON document on one line.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.line(json::compact(value)?)
    }

    /// A heading of the answer.
    pub(crate) fn heading(&mut self, text: &str) -> io::Result<()> {
        let text = self.paint.bold(text);
        self.line(text)
    }

    /// A remark besides the answer, for people.
    pub(crate) fn note(&mut self, text: impl Display) -> io::Result<()> {
        if self.detail == Detail::Quiet || self.is_json() {
            return Ok(());
        }
        self.error_line(self.error_paint.dim(text))
    }

    /// A line on standard error, whatever the detail.
    pub(crate) fn error_line(&mut self, text: impl Display) -> io::Result<()> {
        // What was answered comes before what is said about it, also where both go to one screen.
        let flushed = self.flush();
        writeln!(io::stderr(), "{text}")?;
        flushed
    }

    /// A table on standard error, whatever the detail.
    pub(crate) fn error_table(&mut self, table: Table) -> io::Result<()> {
        let width = io::stderr().is_terminal().then(terminal_width);
        for line in table.render(self.error_paint, width) {
            self.error_line(line)?;
        }
        Ok(())
    }

    /// Standard output itself, for what is too long to keep in memory.
    pub(crate) fn writer(&mut self) -> impl Write + '_ {
        &mut self.out
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(unwritten)
    }
}

/// Says what could not be written; the system says only why.
pub(crate) fn unwritten(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("the answer cannot be written to standard output: {error}"))
}

fn paint(colour: Colour, stream: &impl anstream::stream::RawStream) -> Paint {
    let coloured = match colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never,
    };
    if coloured { Paint::Colour } else { Paint::Plain }
}

fn terminal_width() -> u16 {
    const FALLBACK: u16 = 80;
    // Some terminals do not know their size and say 0.
    comfy_table::Table::new().width().filter(|width| *width > 0).unwrap_or(FALLBACK)
}
