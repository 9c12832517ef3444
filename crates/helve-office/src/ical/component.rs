//! A component: `BEGIN:VEVENT` to `END:VEVENT`, and edits of the lines between.

use bytes::Bytes;

use super::line::{Eol, Line};
use super::new_property::{EditError, NewProperty, check_name, is_control};
use super::property::Property;

/// What stands in a component or a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    /// A property, a blank line or a stray one.
    Line(Line),
    Component(Component),
}

/// A component with its lines and the components inside, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    name: Box<str>,
    begin: Line,
    pub(super) nodes: Vec<Node>,
    end: Line,
    eol: Eol,
}

impl Component {
    /// An empty component.
    pub fn new(name: &str, eol: Eol) -> Result<Self, EditError> {
        check_name(name)?;
        let begin = Line::fold(&format!("BEGIN:{name}"), eol);
        let end = Line::fold(&format!("END:{name}"), eol);
        Ok(Self { name: name.into(), begin, nodes: Vec::new(), end, eol })
    }

    pub(super) fn opened(name: Box<str>, begin: Line, eol: Eol) -> Self {
        Self { name, begin, nodes: Vec::new(), end: Line::from_raw(Bytes::new()), eol }
    }

    pub(super) fn closed(self, end: Line) -> Self {
        Self { end, ..self }
    }

    /// The name as it was written: `VEVENT`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it has that name, in capitals or not.
    pub fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// How the lines of its document end.
    pub fn eol(&self) -> Eol {
        self.eol
    }

    /// Its content lines, those of components inside left out.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.nodes.iter().filter_map(|node| match node {
            Node::Line(line) => Some(line),
            Node::Component(_) => None,
        })
    }

    /// Its properties in their order.
    pub fn properties(&self) -> impl Iterator<Item = Property<'_>> {
        self.lines().filter_map(Line::property)
    }

    /// The first property of that name.
    pub fn property(&self, name: &str) -> Option<Property<'_>> {
        self.lines().find(|line| line.is_named(name))?.property()
    }

    /// Every property of that name.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = Property<'a>> {
        self.lines().filter(move |line| line.is_named(name)).filter_map(Line::property)
    }

    /// The components inside.
    pub fn components(&self) -> impl Iterator<Item = &Component> {
        components(&self.nodes)
    }

    /// The components inside, to be edited.
    pub fn components_mut(&mut self) -> impl Iterator<Item = &mut Component> {
        components_mut(&mut self.nodes)
    }

    /// Writes a property in the place of the first of its name, and takes out all others of that name. Where
    /// there is none it is [added](Self::add).
    pub fn set(&mut self, property: &NewProperty) {
        self.replace(property, property.to_line(self.eol));
    }

    /// The same, but parameters of the first of that name stay, unless the new one has them or they say how the old
    /// value was to be read: a language, and what other programs put there, is not the writer's to drop.
    pub fn rewrite(&mut self, property: &NewProperty) {
        let params = &property.head()[property.head().find(';').unwrap_or(property.head().len())..];
        let is_of_value = |name: &str| {
            let own = |own: &str| own.split('=').next().is_some_and(|own| own.eq_ignore_ascii_case(name));
            let of_value = ["ALTREP", "VALUE", "TZID", "ENCODING", "CHARSET"];
            of_value.iter().any(|known| known.eq_ignore_ascii_case(name)) || params.split(';').any(own)
        };
        let old = self.property(property.name()).map(|old| old.head_without(is_of_value));
        let line = match old {
            Some(head) => Line::fold(&format!("{head}{params}:{}", property.value()), self.eol),
            None => property.to_line(self.eol),
        };
        self.replace(property, line);
    }

    fn replace(&mut self, property: &NewProperty, line: Line) {
        let mut line = Some(line);
        self.nodes.retain_mut(|node| match node {
            Node::Line(old) if old.is_named(property.name()) => match line.take() {
                Some(new) => {
                    *old = new;
                    true
                }
                None => false,
            },
            Node::Line(_) | Node::Component(_) => true,
        });
        if line.is_some() {
            self.add(property);
        }
    }

    /// Writes another value for the first property of that name and keeps its parameters as they are. Says
    /// whether there is one.
    pub fn set_value(&mut self, name: &str, value: &str) -> Result<bool, EditError> {
        if value.chars().any(is_control) {
            return Err(EditError::Control(name.to_owned()));
        }
        let eol = self.eol;
        let first = self.nodes.iter_mut().find_map(|node| match node {
            Node::Line(line) if line.is_named(name) => Some(line),
            Node::Line(_) | Node::Component(_) => None,
        });
        let Some(line) = first else { return Ok(false) };
        let Some(head) = line.property().map(|property| property.head().to_owned()) else { return Ok(false) };
        *line = Line::fold(&format!("{head}:{value}"), eol);
        Ok(true)
    }

    /// Writes one parameter of those properties of that name that a test picks, or takes it out. Everything else on
    /// their lines stays. Says how many there were.
    pub fn set_param(
        &mut self,
        name: &str,
        mut picks: impl FnMut(&Property<'_>) -> bool,
        param: &str,
        value: Option<&str>,
    ) -> Result<usize, EditError> {
        let new = value.map(|value| NewProperty::raw(name, "")?.with_param(param, value)).transpose()?;
        let new = new.map(|new| new.head()[name.len() + 1..].to_owned());
        let mut count = 0;
        for node in &mut self.nodes {
            let Node::Line(line) = node else { continue };
            if !line.is_named(name) {
                continue;
            }
            let Some(property) = line.property().filter(|property| picks(property)) else { continue };
            let text = format!("{}:{}", property.head_with(param, new.as_deref()), property.value());
            *line = Line::fold(&text, self.eol);
            count += 1;
        }
        Ok(count)
    }

    /// Adds a property behind the last one and before the components inside, where the standard wants it.
    pub fn add(&mut self, property: &NewProperty) {
        let inside = self.nodes.iter().position(|node| matches!(node, Node::Component(_)));
        let line = Node::Line(property.to_line(self.eol));
        self.nodes.insert(inside.unwrap_or(self.nodes.len()), line);
    }

    /// Takes out every property of that name, and says how many there were.
    pub fn remove(&mut self, name: &str) -> usize {
        self.remove_where(name, |_| true)
    }

    /// Takes out those properties of that name that a test picks, and says how many there were.
    pub fn remove_where(&mut self, name: &str, mut goes: impl FnMut(&Property<'_>) -> bool) -> usize {
        let before = self.nodes.len();
        self.nodes.retain(|node| match node {
            Node::Line(line) if line.is_named(name) => {
                !line.property().is_some_and(|property| goes(&property))
            }
            Node::Line(_) | Node::Component(_) => true,
        });
        before - self.nodes.len()
    }

    /// Puts a component inside, behind all others.
    pub fn push(&mut self, component: Component) {
        self.nodes.push(Node::Component(component));
    }

    /// Puts a component inside, before all others: where a `VTIMEZONE` belongs.
    pub fn push_first(&mut self, component: Component) {
        let inside = self.nodes.iter().position(|node| matches!(node, Node::Component(_)));
        self.nodes.insert(inside.unwrap_or(self.nodes.len()), Node::Component(component));
    }

    /// Takes out those components inside that a test picks.
    pub fn take_components(&mut self, mut goes: impl FnMut(&Component) -> bool) -> Vec<Component> {
        let mut taken = Vec::new();
        let nodes = std::mem::take(&mut self.nodes);
        for node in nodes {
            match node {
                Node::Component(component) if goes(&component) => taken.push(component),
                node => self.nodes.push(node),
            }
        }
        taken
    }

    pub(super) fn print(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.begin.raw());
        print(&self.nodes, out);
        out.extend_from_slice(self.end.raw());
    }
}

pub(super) fn components(nodes: &[Node]) -> impl Iterator<Item = &Component> {
    nodes.iter().filter_map(|node| match node {
        Node::Component(component) => Some(component),
        Node::Line(_) => None,
    })
}

pub(super) fn components_mut(nodes: &mut [Node]) -> impl Iterator<Item = &mut Component> {
    nodes.iter_mut().filter_map(|node| match node {
        Node::Component(component) => Some(component),
        Node::Line(_) => None,
    })
}

pub(super) fn print(nodes: &[Node], out: &mut Vec<u8>) {
    for node in nodes {
        match node {
            Node::Line(line) => out.extend_from_slice(line.raw()),
            Node::Component(component) => component.print(out),
        }
    }
}
