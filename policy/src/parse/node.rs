//! One value of the file, together with its key and its line.
//!
//! Runs in: any (pure data).

use std::ops::RangeInclusive;

use toml_edit::{Array, ArrayOfTables, Item, Table, TableLike, Value};

use super::schema::Section;
use crate::error::{Complaint, PolicyError, quote};
use crate::paths::Bases;

/// The file that is read.
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub file: &'a str,
    pub text: &'a str,
    pub bases: Bases<'a>,
}

impl Source<'_> {
    /// Returns the line of a byte, counted from 1.
    pub(super) fn line(&self, byte: usize) -> usize {
        let before = self.text.as_bytes().get(..byte).unwrap_or_default();
        1 + before.iter().filter(|byte| **byte == b'\n').count()
    }
}

/// What a value is; the two ways in which TOML writes a table are one, those of an array are not.
#[derive(Clone, Copy)]
enum View<'a> {
    Text(&'a str),
    Whole(i64),
    Fraction,
    Flag(bool),
    Time,
    Values(&'a Array),
    Tables(&'a ArrayOfTables),
    Table(&'a dyn TableLike),
    Nothing,
}

impl<'a> From<&'a Item> for View<'a> {
    fn from(item: &'a Item) -> Self {
        match item {
            Item::None => Self::Nothing,
            Item::Value(value) => Self::from(value),
            Item::Table(table) => Self::Table(table),
            Item::ArrayOfTables(tables) => Self::Tables(tables),
        }
    }
}

impl<'a> From<&'a Value> for View<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text.value()),
            Value::Integer(number) => Self::Whole(*number.value()),
            Value::Float(_) => Self::Fraction,
            Value::Boolean(flag) => Self::Flag(*flag.value()),
            Value::Datetime(_) => Self::Time,
            Value::Array(array) => Self::Values(array),
            Value::InlineTable(table) => Self::Table(table),
        }
    }
}

/// One value of the file.
pub(super) struct Node<'a> {
    source: &'a Source<'a>,
    field: String,
    line: Option<usize>,
    view: View<'a>,
}

impl<'a> Node<'a> {
    pub(super) fn root(source: &'a Source<'a>, table: &'a Table) -> Self {
        Self { source, field: String::new(), line: None, view: View::Table(table) }
    }

    pub(super) fn bases(&self) -> Bases<'a> {
        self.source.bases
    }

    /// Makes a complaint about this value an error with its place.
    pub(super) fn refuse(&self, complaint: Complaint) -> PolicyError {
        PolicyError::place(self.source.file, self.line, &self.field, complaint)
    }

    /// Says what should stand here instead; `what` starts with an article.
    pub(super) fn expected(&self, what: &str) -> PolicyError {
        self.refuse(Complaint::new(format!("expected {what}, found {}", self.describe())))
    }

    /// Names the kind of the value and never the value: it might be a secret in a wrong place.
    fn describe(&self) -> &'static str {
        match self.view {
            View::Text("") => "an empty string",
            View::Text(_) => "a string",
            View::Whole(_) | View::Fraction => "a number",
            View::Flag(_) => "a boolean",
            View::Time => "a date or time",
            View::Values(_) | View::Tables(_) => "an array",
            View::Table(_) => "a table",
            View::Nothing => "nothing",
        }
    }

    pub(super) fn is_table(&self) -> bool {
        matches!(self.view, View::Table(_))
    }

    pub(super) fn text(&self, what: &str) -> Result<&'a str, PolicyError> {
        let View::Text(text) = self.view else { return Err(self.expected(what)) };
        if text.contains('\0') {
            return Err(self.refuse(Complaint::new("expected text without a NUL byte")));
        }
        Ok(text)
    }

    /// Reads one of a few words; the message quotes what stands there instead.
    pub(super) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, PolicyError> {
        let known = words.iter().map(|(word, _)| format!("{word:?}")).collect::<Vec<_>>();
        let known = match known.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        };
        let found = self.text(&known)?;
        match words.iter().find(|(word, _)| *word == found) {
            Some((_, value)) => Ok(*value),
            None => {
                let message = format!("expected {known}, found {}", quote(found));
                Err(self.refuse(Complaint::new(message)))
            }
        }
    }

    pub(super) fn whole(&self, range: RangeInclusive<u32>) -> Result<u32, PolicyError> {
        let what = format!("a whole number from {} to {}", range.start(), range.end());
        let View::Whole(found) = self.view else { return Err(self.expected(&what)) };
        match u32::try_from(found) {
            Ok(number) if range.contains(&number) => Ok(number),
            Ok(_) | Err(_) => {
                Err(self.refuse(Complaint::new(format!("expected {what}, found {found}"))))
            }
        }
    }

    pub(super) fn flag(&self) -> Result<bool, PolicyError> {
        let View::Flag(flag) = self.view else { return Err(self.expected("true or false")) };
        Ok(flag)
    }

    /// Returns the elements of an array, of either way of writing one.
    pub(super) fn list(&self, what: &str) -> Result<Vec<Self>, PolicyError> {
        match self.view {
            View::Values(array) => {
                let elements = array.iter().map(|value| (value.span(), View::from(value)));
                Ok(self.elements(elements))
            }
            View::Tables(tables) => {
                let elements = tables.iter().map(|table| (table.span(), View::Table(table)));
                Ok(self.elements(elements))
            }
            View::Text(_) | View::Whole(_) | View::Fraction | View::Flag(_) | View::Time => {
                Err(self.expected(what))
            }
            View::Table(_) | View::Nothing => Err(self.expected(what)),
        }
    }

    fn elements(
        &self,
        views: impl Iterator<Item = (Option<std::ops::Range<usize>>, View<'a>)>,
    ) -> Vec<Self> {
        let element = |(index, (span, view)): (usize, (Option<std::ops::Range<usize>>, _))| Self {
            source: self.source,
            field: format!("{}[{index}]", self.field),
            line: span.map(|span| self.source.line(span.start)).or(self.line),
            view,
        };
        views.enumerate().map(element).collect()
    }

    /// Returns the keys and values of a table whose keys the user chooses, in the order of the file.
    pub(super) fn entries(&self) -> Result<Vec<(&'a str, Self)>, PolicyError> {
        let View::Table(table) = self.view else { return Err(self.expected("a table")) };
        Ok(table.iter().map(|(key, item)| (key, self.child(table, key, item))).collect())
    }

    /// Returns a table whose keys are those of `section`, and refuses any other key in it.
    pub(super) fn fields(&self, section: &'static Section) -> Result<Fields<'_, 'a>, PolicyError> {
        for (key, node) in self.entries()? {
            section.check(key).map_err(|complaint| node.refuse(complaint))?;
        }
        Ok(Fields { of: self })
    }

    fn child(&self, table: &'a dyn TableLike, key: &str, item: &'a Item) -> Self {
        let span = table.key(key).and_then(toml_edit::Key::span).or_else(|| item.span());
        let shown = shown_key(key);
        let field = match self.field.as_str() {
            "" => shown,
            parent => format!("{parent}.{shown}"),
        };
        let line = span.map(|span| self.source.line(span.start)).or(self.line);
        Self { source: self.source, field, line, view: View::from(item) }
    }
}

/// A table whose keys are known to be allowed.
pub(super) struct Fields<'n, 'a> {
    of: &'n Node<'a>,
}

impl<'a> Fields<'_, 'a> {
    pub(super) fn find(&self, key: &str) -> Option<Node<'a>> {
        let View::Table(table) = self.of.view else { return None };
        table.get(key).map(|item| self.of.child(table, key, item))
    }

    /// Returns the value of a key that has to be there; `what` starts with an article.
    pub(super) fn require(&self, key: &str, what: &str) -> Result<Node<'a>, PolicyError> {
        self.find(key).ok_or_else(|| {
            let missing = Node {
                source: self.of.source,
                field: format!("{}.{key}", self.of.field),
                line: self.of.line,
                view: View::Nothing,
            };
            missing.expected(what)
        })
    }
}

/// Shows a key as TOML writes it, cut where it is long.
fn shown_key(key: &str) -> String {
    let is_bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !key.is_empty() && key.len() <= 80 && key.bytes().all(is_bare) {
        return key.to_owned();
    }
    quote(key)
}
