//! A parsed page, flat in memory.
//!
//! Nodes stand in one list and name each other by number, so that neither walking nor dropping a
//! page recurses: 100,000 nested elements are as harmless as 100,000 next to each other. The parser
//! itself gets slower the deeper a page is and the more attributes one tag has; it is fed in small
//! pieces and stopped when the page leaves all bounds. What was read until then is kept.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use html5ever::interface::{ElemName, ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{Attribute, LocalName, Namespace, ParseOpts, QualName, local_name, ns, parse_document};

/// Deepest nesting; Chromium's own bound is the same.
const DEPTH_MAX: u32 = 512;
const NODES_MAX: usize = 400_000;
const ATTRIBUTES_MAX: usize = 200;
/// Real pages of megabytes take a tenth of it.
const PARSE_TIME_MAX: Duration = Duration::from_secs(5);
/// How much the parser gets before the bounds are looked at.
const PIECE_BYTES: usize = 4 << 10;

/// A node's place in the list.
pub(super) type Id = usize;

/// A parsed page.
pub(super) struct Dom {
    nodes: Vec<Node>,
    /// Whether the page left the bounds and its end is missing.
    pub(super) truncated: bool,
}

struct Node {
    parent: Option<Id>,
    first: Option<Id>,
    last: Option<Id>,
    previous: Option<Id>,
    next: Option<Id>,
    depth: u32,
    data: Data,
}

enum Data {
    Document,
    Element(Element),
    Text(String),
    /// Comments and the like: nobody sees them, so they are never put into the page.
    Other,
}

/// An element of the page, with its attributes.
pub(super) struct Element {
    name: QualName,
    attributes: Vec<(LocalName, String)>,
    /// The contents of a `<template>`, which are not part of the page.
    template: Option<Id>,
}

impl Element {
    /// Its name, in lower case.
    pub(super) fn name(&self) -> &str {
        &self.name.local
    }

    /// The value of an attribute.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| &**known == name).map(|(_, value)| value.as_str())
    }

    /// Every attribute, as name and value.
    pub(super) fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attributes.iter().map(|(name, value)| (&**name, value.as_str()))
    }

    /// Whether it has this class.
    pub(super) fn has_class(&self, class: &str) -> bool {
        self.attribute("class").is_some_and(|all| all.split_ascii_whitespace().any(|one| one == class))
    }
}

/// A step of a walk through a page.
pub(super) enum Step<'d> {
    /// An element begins.
    Open(Id, &'d Element),
    /// An element ends.
    Close(&'d Element),
    /// Text between elements.
    Text(&'d str),
}

impl Dom {
    /// The document itself.
    pub(super) const ROOT: Id = 0;

    /// Reads a page.
    pub(super) fn parse(html: &str) -> Self {
        let options = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
        let options = ParseOpts { tree_builder: options, ..ParseOpts::default() };
        let mut parser = parse_document(Sink::default(), options);
        let started = Instant::now();
        let mut rest = html;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.ceil_char_boundary(PIECE_BYTES));
            parser.process(StrTendril::from(piece));
            rest = after;
            let sink = &parser.tokenizer.sink.sink;
            let late = started.elapsed() > PARSE_TIME_MAX;
            if !rest.is_empty() && (late || sink.deepest.get() > DEPTH_MAX || sink.len() > NODES_MAX) {
                sink.truncated.set(true);
                break;
            }
        }
        parser.finish()
    }

    /// The element at `id`, if it is one.
    pub(super) fn element(&self, id: Id) -> Option<&Element> {
        match &self.nodes[id].data {
            Data::Element(element) => Some(element),
            Data::Document | Data::Text(_) | Data::Other => None,
        }
    }

    pub(super) fn parent(&self, id: Id) -> Option<Id> {
        self.nodes[id].parent
    }

    /// The last element directly below.
    pub(super) fn last_element(&self, id: Id) -> Option<Id> {
        // Texts are merged and comments left out, so at most one node stands after it.
        let last = self.nodes[id].last?;
        if self.element(last).is_some() { Some(last) } else { self.nodes[last].previous }
    }

    /// Whether nothing stands in it, not even text.
    pub(super) fn is_empty(&self, id: Id) -> bool {
        self.nodes[id].first.is_none()
    }

    /// Every element at and below `root`, in the order of the page.
    pub(super) fn elements(&self, root: Id) -> impl Iterator<Item = (Id, &Element)> {
        self.walk(root, |_, _| true).filter_map(|step| match step {
            Step::Open(id, element) => Some((id, element)),
            Step::Close(_) | Step::Text(_) => None,
        })
    }

    /// Walks everything at and below `root`; what `enter` says no to is left out with all in it.
    pub(super) fn walk<'d>(
        &'d self,
        root: Id,
        enter: impl Fn(Id, &Element) -> bool + 'd,
    ) -> impl Iterator<Item = Step<'d>> {
        let mut at = Some((root, true));
        std::iter::from_fn(move || {
            while let Some((id, opening)) = at {
                let node = &self.nodes[id];
                let onward = if id == root {
                    None
                } else {
                    node.next.map(|next| (next, true)).or(node.parent.map(|parent| (parent, false)))
                };
                if !opening {
                    at = onward;
                    if let Data::Element(element) = &node.data {
                        return Some(Step::Close(element));
                    }
                    continue;
                }
                match &node.data {
                    Data::Element(element) if enter(id, element) => {
                        at = node.first.map(|first| (first, true)).or(Some((id, false)));
                        return Some(Step::Open(id, element));
                    }
                    Data::Document => at = node.first.map(|first| (first, true)),
                    Data::Text(text) => {
                        at = onward;
                        return Some(Step::Text(text));
                    }
                    Data::Element(_) | Data::Other => at = onward,
                }
            }
            None
        })
    }
}

/// Builds a [`Dom`] as the parser says.
struct Sink {
    nodes: RefCell<Vec<Node>>,
    deepest: Cell<u32>,
    truncated: Cell<bool>,
}

impl Default for Sink {
    fn default() -> Self {
        let sink = Self { nodes: RefCell::default(), deepest: Cell::new(0), truncated: Cell::new(false) };
        sink.add(Data::Document);
        sink
    }
}

impl Sink {
    fn len(&self) -> usize {
        self.nodes.borrow().len()
    }

    fn add(&self, data: Data) -> Id {
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(Node {
            parent: None,
            first: None,
            last: None,
            previous: None,
            next: None,
            depth: 0,
            data,
        });
        nodes.len() - 1
    }

    fn detach(&self, id: Id) {
        let nodes = &mut *self.nodes.borrow_mut();
        let (parent, previous, next) =
            (nodes[id].parent.take(), nodes[id].previous.take(), nodes[id].next.take());
        match (previous, parent) {
            (Some(previous), _) => nodes[previous].next = next,
            (None, Some(parent)) => nodes[parent].first = next,
            (None, None) => {}
        }
        match (next, parent) {
            (Some(next), _) => nodes[next].previous = previous,
            (None, Some(parent)) => nodes[parent].last = previous,
            (None, None) => {}
        }
    }

    /// Puts `id` below `parent`, before `next` or at the end.
    fn insert(&self, id: Id, parent: Id, next: Option<Id>) {
        self.detach(id);
        let nodes = &mut *self.nodes.borrow_mut();
        let previous = match next {
            Some(next) => nodes[next].previous.replace(id),
            None => nodes[parent].last.replace(id),
        };
        match previous {
            Some(previous) => nodes[previous].next = Some(id),
            None => nodes[parent].first = Some(id),
        }
        let depth = nodes[parent].depth + 1;
        self.deepest.set(self.deepest.get().max(depth));
        let node = &mut nodes[id];
        (node.parent, node.previous, node.next, node.depth) = (Some(parent), previous, next, depth);
    }

    /// Adds text, to the text before it where there is some.
    fn insert_text(&self, text: &str, parent: Id, next: Option<Id>) {
        let before = {
            let nodes = self.nodes.borrow();
            next.map_or(nodes[parent].last, |next| nodes[next].previous)
        };
        if let Some(before) = before
            && let Data::Text(known) = &mut self.nodes.borrow_mut()[before].data
        {
            known.push_str(text);
            return;
        }
        let id = self.add(Data::Text(text.to_owned()));
        self.insert(id, parent, next);
    }

    fn place(&self, child: NodeOrText<Id>, parent: Id, next: Option<Id>) {
        match child {
            NodeOrText::AppendNode(id) if matches!(self.nodes.borrow()[id].data, Data::Other) => {}
            NodeOrText::AppendNode(id) => self.insert(id, parent, next),
            NodeOrText::AppendText(text) => self.insert_text(&text, parent, next),
        }
    }
}

fn kept(attribute: Attribute) -> (LocalName, String) {
    (attribute.name.local, attribute.value.to_string())
}

/// A name that does not borrow from the list of nodes.
#[derive(Debug)]
struct OwnName(QualName);

impl ElemName for OwnName {
    fn ns(&self) -> &Namespace {
        &self.0.ns
    }

    fn local_name(&self) -> &LocalName {
        &self.0.local
    }
}

impl TreeSink for Sink {
    type Handle = Id;
    type Output = Dom;
    type ElemName<'a> = OwnName;

    fn finish(self) -> Dom {
        Dom { nodes: self.nodes.into_inner(), truncated: self.truncated.get() }
    }

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> Id {
        Dom::ROOT
    }

    fn elem_name<'a>(&'a self, target: &'a Id) -> OwnName {
        match &self.nodes.borrow()[*target].data {
            Data::Element(element) => OwnName(element.name.clone()),
            // The parser never asks for it.
            Data::Document | Data::Text(_) | Data::Other => {
                OwnName(QualName::new(None, ns!(), local_name!("")))
            }
        }
    }

    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, flags: ElementFlags) -> Id {
        let template = flags.template.then(|| self.add(Data::Other));
        let attributes = attributes.into_iter().take(ATTRIBUTES_MAX).map(kept).collect();
        self.add(Data::Element(Element { name, attributes, template }))
    }

    fn create_comment(&self, _: StrTendril) -> Id {
        self.add(Data::Other)
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> Id {
        self.add(Data::Other)
    }

    fn append(&self, parent: &Id, child: NodeOrText<Id>) {
        self.place(child, *parent, None);
    }

    fn append_based_on_parent_node(&self, element: &Id, previous: &Id, child: NodeOrText<Id>) {
        let parent = self.nodes.borrow()[*element].parent;
        match parent {
            Some(parent) => self.place(child, parent, Some(*element)),
            None => self.place(child, *previous, None),
        }
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn get_template_contents(&self, target: &Id) -> Id {
        match &self.nodes.borrow()[*target].data {
            Data::Element(Element { template: Some(contents), .. }) => *contents,
            // The parser asks for templates alone.
            Data::Element(_) | Data::Document | Data::Text(_) | Data::Other => *target,
        }
    }

    fn same_node(&self, x: &Id, y: &Id) -> bool {
        x == y
    }

    fn set_quirks_mode(&self, _: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &Id, child: NodeOrText<Id>) {
        let parent = self.nodes.borrow()[*sibling].parent;
        if let Some(parent) = parent {
            self.place(child, parent, Some(*sibling));
        }
    }

    fn add_attrs_if_missing(&self, target: &Id, attributes: Vec<Attribute>) {
        if let Data::Element(element) = &mut self.nodes.borrow_mut()[*target].data {
            for (name, value) in attributes.into_iter().map(kept) {
                let room = element.attributes.len() < ATTRIBUTES_MAX;
                if room && !element.attributes.iter().any(|(known, _)| *known == name) {
                    element.attributes.push((name, value));
                }
            }
        }
    }

    fn remove_from_parent(&self, target: &Id) {
        self.detach(*target);
    }

    fn reparent_children(&self, node: &Id, new_parent: &Id) {
        loop {
            let child = self.nodes.borrow()[*node].first;
            match child {
                Some(child) => self.insert(child, *new_parent, None),
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn outline(html: &str) -> String {
        let dom = Dom::parse(html);
        let steps = dom.walk(Dom::ROOT, |_, element| element.name() != "head").map(|step| match step {
            Step::Open(_, element) => format!("<{}>", element.name()),
            Step::Close(element) => format!("</{}>", element.name()),
            Step::Text(text) => text.to_owned(),
        });
        steps.collect()
    }

    #[test]
    fn broken_html_is_read_as_browsers_do() {
        assert_eq!(
            outline("<p>a<p>b<!-- c --><b>d</p>e"),
            "<html><body><p>a</p><p>b<b>d</b></p><b>e</b></body></html>"
        );
        assert_eq!(
            outline("<table>x<tr><td>y</table>"),
            "<html><body>x<table><tbody><tr><td>y</td></tr></tbody></table></body></html>"
        );
        assert_eq!(outline("<template>hidden</template>v"), "<html><body>v</body></html>");
        assert_eq!(outline("<b><p>1</b>2</p>"), "<html><body><b></b><p><b>1</b>2</p></body></html>");
        assert_eq!(outline(""), "<html><body></body></html>");
    }

    #[test]
    fn a_page_of_endless_depth_is_cut_and_does_not_overflow_the_stack() {
        let html = format!("<title>t</title>{}deep", "<div>".repeat(100_000));
        // A small stack: what recurses fails here.
        let read = std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
            let dom = Dom::parse(&html);
            let elements = dom.elements(Dom::ROOT).count();
            (dom.truncated, elements)
        });
        let (truncated, elements) = read.unwrap().join().unwrap();
        assert!(truncated && elements > DEPTH_MAX as usize && elements < 5_000, "{elements}");
    }

    #[test]
    fn a_tag_with_very_many_attributes_ends() {
        let attributes: String = (0..60_000).map(|n| format!(" a{n}")).collect();
        let dom = Dom::parse(&format!("<p>before</p><div{attributes}>after</div>"));
        let div = dom.elements(Dom::ROOT).find(|(_, element)| element.name() == "div");
        assert!(dom.truncated || div.is_some_and(|(_, div)| div.attributes().count() == ATTRIBUTES_MAX));
        assert!(dom.elements(Dom::ROOT).any(|(_, element)| element.name() == "p"));
    }

    proptest! {
        #[test]
        fn any_text_can_be_parsed_and_walked(pieces in proptest::collection::vec(prop_oneof![
            Just("<div>"), Just("</div>"), Just("<table>"), Just("<tr>"), Just("<td>"), Just("<b>"), Just("</b>"),
            Just("<p>"), Just("</p>"), Just("<svg>"), Just("<template>"), Just("</template>"), Just("<select>"),
            Just("<option>"), Just("<form>"), Just("<a href=x>"), Just("text"), Just("<!--"), Just("-->"),
            Just("<frameset>"), Just("<math>"), Just("<script>"), Just("</script>"), Just("</body>"),
        ], 0..60)) {
            let dom = Dom::parse(&pieces.concat());
            let mut open = Vec::new();
            for step in dom.walk(Dom::ROOT, |_, _| true) {
                match step {
                    Step::Open(_, element) => open.push(element.name().to_owned()),
                    Step::Close(element) => prop_assert_eq!(open.pop(), Some(element.name().to_owned())),
                    Step::Text(_) => {}
                }
            }
            prop_assert!(open.is_empty());
        }
    }
}
