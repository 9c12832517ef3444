//! Which composed tool calls which: loops and depth are found before anything runs.

use std::collections::HashMap;

use helve_core::Tool;

use crate::registry::Registry;

/// Most composed tools within each other.
pub const DEPTH_MAX: usize = 8;

/// What is wrong with a composed tool that calls these, where something is.
pub(super) fn refusal(name: &str, parts: &[String], registry: &Registry) -> Option<String> {
    let mut walk = Walk { registry, chain: vec![name.to_owned()], depths: HashMap::new() };
    walk.deepest(parts).err()
}

struct Walk<'a> {
    registry: &'a Registry,
    /// From the outermost tool to where we are.
    chain: Vec<String>,
    /// How deep the tools below a tool go, once that is known.
    depths: HashMap<String, usize>,
}

impl Walk<'_> {
    fn deepest(&mut self, parts: &[String]) -> Result<usize, String> {
        let mut deepest = 0;
        for part in parts {
            let tool = self.registry.tool(part);
            // The tool that is being made is not registered yet.
            let name = tool.as_ref().map_or(part.as_str(), |tool| tool.name().as_str()).to_owned();
            if self.chain.contains(&name) {
                return Err(format!("it would call itself: {}", self.shown(&name)));
            }
            let depth = match tool.filter(Tool::is_composed) {
                Some(tool) => self.below(name, &tool)? + 1,
                None => 0,
            };
            deepest = deepest.max(depth);
        }
        Ok(deepest)
    }

    fn below(&mut self, name: String, tool: &Tool) -> Result<usize, String> {
        if let Some(depth) = self.depths.get(&name).copied() {
            if self.chain.len() + 1 + depth > DEPTH_MAX {
                return Err(self.too_deep(&name));
            }
            return Ok(depth);
        }
        if self.chain.len() + 1 > DEPTH_MAX {
            return Err(self.too_deep(&name));
        }
        self.chain.push(name.clone());
        let depth = self.deepest(&tool.handler().parts())?;
        self.chain.pop();
        self.depths.insert(name, depth);
        Ok(depth)
    }

    fn too_deep(&self, name: &str) -> String {
        format!("composed tools within each other go deeper than {DEPTH_MAX}: {}", self.shown(name))
    }

    fn shown(&self, last: &str) -> String {
        let names = self.chain.iter().map(String::as_str).chain(Some(last));
        names.collect::<Vec<_>>().join(" → ")
    }
}

/// The order in which composed tools can be built: each after those that it calls.
///
/// `tools` are their names and those of their parts; of two of one name the later is meant. Tools that call each other in a circle are
/// left out, each with the circle.
///
/// ```
/// use helve::compose::{Order, order};
/// let parts = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
/// let tools = [("a", parts(&["b"])), ("b", parts(&["time-now"])), ("c", parts(&["c"]))];
/// let Order { sorted, circles } = order(&tools);
/// assert_eq!(sorted, [1, 0]);
/// assert_eq!(circles, [(2, "c → c".to_owned())]);
/// ```
pub fn order<N: AsRef<str>>(tools: &[(N, Vec<String>)]) -> Order {
    let mut order = Order::default();
    let mut seen = vec![Seen::Not; tools.len()];
    for index in 0..tools.len() {
        visit(tools, index, &mut Vec::new(), &mut seen, &mut order);
    }
    order
}

/// In which order composed tools can be built.
#[derive(Debug, Default)]
pub struct Order {
    /// Indices, each after those that it calls.
    pub sorted: Vec<usize>,
    /// Indices of those that call themselves in the end, each with how.
    pub circles: Vec<(usize, String)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Seen {
    Not,
    Now,
    Sorted,
    InCircle,
}

fn visit<N: AsRef<str>>(
    tools: &[(N, Vec<String>)],
    index: usize,
    path: &mut Vec<usize>,
    seen: &mut [Seen],
    order: &mut Order,
) {
    if seen[index] != Seen::Not {
        return;
    }
    seen[index] = Seen::Now;
    path.push(index);
    for part in &tools[index].1 {
        let Some(next) = tools.iter().rposition(|(name, _)| name.as_ref() == part) else { continue };
        if let Some(start) = path.iter().position(|one| *one == next) {
            let circle: Vec<_> = path[start..].to_vec();
            for (turn, member) in circle.iter().enumerate() {
                if seen[*member] == Seen::InCircle {
                    continue;
                }
                let names = circle[turn..].iter().chain(&circle[..=turn]).map(|one| tools[*one].0.as_ref());
                order.circles.push((*member, names.collect::<Vec<_>>().join(" → ")));
            }
            circle.iter().for_each(|member| seen[*member] = Seen::InCircle);
        } else {
            visit(tools, next, path, seen, order);
        }
    }
    path.pop();
    if seen[index] == Seen::Now {
        seen[index] = Seen::Sorted;
        order.sorted.push(index);
    }
}
