//! `Arena`: the nodes of a set of schemas, and the facts about them that are computed once all nodes exist.

use super::{Node, NodeId, Shape};
use std::sync::Arc;

/// All nodes of a set of schemas. The built-in types share one arena, each custom resource version has its own.
#[derive(Debug, Default)]
pub struct Arena {
    /// The first nodes, which are shared with other arenas.
    base: Option<Arc<Arena>>,
    base_len: usize,
    nodes: Vec<Node>,
    /// For each node of a sealed arena, whether a `RawExtension` is at or below it.
    raw: Vec<bool>,
    /// For each node of a sealed arena, whether a field of bytes is at or below it.
    bytes: Vec<bool>,
}

impl Arena {
    /// Creates an arena that begins with the nodes of another one.
    pub fn on(base: Arc<Arena>) -> Arena {
        Arena {
            base_len: base.base_len.saturating_add(base.nodes.len()),
            base: Some(base),
            nodes: Vec::new(),
            raw: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Frees unused capacity.
    pub fn shrink(&mut self) {
        self.nodes.shrink_to_fit();
    }

    /// Adds a node.
    pub fn push(&mut self, node: Node) -> NodeId {
        let id = NodeId(u32::try_from(self.base_len.saturating_add(self.nodes.len())).unwrap_or(u32::MAX));
        self.nodes.push(node);
        id
    }

    /// The node `id`. Ids come from this arena's `push`.
    #[expect(clippy::indexing_slicing, reason = "ids are handed out by push and nodes are never removed")]
    pub fn node(&self, id: NodeId) -> &Node {
        match (id.0 as usize).checked_sub(self.base_len) {
            Some(own) => &self.nodes[own],
            None => self.shared(id),
        }
    }

    #[cold]
    fn shared(&self, id: NodeId) -> &Node {
        match &self.base {
            Some(base) => base.node(id),
            None => unreachable!("only an arena with a base has a first node"),
        }
    }

    /// Computes, once all nodes exist, which fields the structs of Go types always write.
    pub fn seal(&mut self) {
        for at in 0..self.nodes.len() {
            let Some(Node { shape: Shape::Struct(s), .. }) = self.nodes.get(at) else { continue };
            if s.go_name.is_empty() {
                continue;
            }
            let always =
                s.fields.iter().enumerate().filter(|(_, f)| f.always_written(&self.node(f.node).shape));
            let always: Box<[u16]> = always.filter_map(|(at, _)| u16::try_from(at).ok()).collect();
            if let Some(Node { shape: Shape::Struct(s), .. }) = self.nodes.get_mut(at) {
                s.always = always;
            }
        }
        self.raw = self.reaching(Node::is_raw_extension);
        self.bytes = self.reaching(|node| matches!(node.shape, Shape::Bytes));
    }

    /// Computes, once all nodes exist, from which of them a node that satisfies `is` can be reached.
    fn reaching(&self, is: impl Fn(&Node) -> bool) -> Vec<bool> {
        let mut reached: Vec<bool> = self.nodes.iter().map(is).collect();
        loop {
            let reaches = |id: NodeId| {
                let own = (id.0 as usize).checked_sub(self.base_len);
                own.and_then(|at| reached.get(at)).copied().unwrap_or(false)
            };
            let found: Vec<usize> = (0..self.nodes.len())
                .filter(|at| reached.get(*at) == Some(&false))
                .filter(|at| match self.nodes.get(*at).map(|node| &node.shape) {
                    Some(Shape::List { item, .. }) => reaches(*item),
                    Some(Shape::Map { value, .. }) => reaches(*value),
                    Some(Shape::Struct(s)) => s.fields.iter().any(|field| reaches(field.node)),
                    _ => false,
                })
                .collect();
            if found.is_empty() {
                return reached;
            }
            for at in found {
                if let Some(reached) = reached.get_mut(at) {
                    *reached = true;
                }
            }
        }
    }

    /// Whether bytes are at or below this node.
    pub fn reaches_bytes(&self, id: NodeId) -> bool {
        match (id.0 as usize).checked_sub(self.base_len) {
            Some(own) => self.bytes.get(own).copied().unwrap_or(false),
            None => self.base.as_ref().is_some_and(|base| base.reaches_bytes(id)),
        }
    }

    /// Whether a `RawExtension` is at or below this node.
    pub fn reaches_raw(&self, id: NodeId) -> bool {
        match (id.0 as usize).checked_sub(self.base_len) {
            Some(own) => self.raw.get(own).copied().unwrap_or(false),
            None => self.base.as_ref().is_some_and(|base| base.reaches_raw(id)),
        }
    }

    /// Copies a part of another arena. Its structs become structs of a custom resource, whose fields are written in order
    /// of name.
    pub fn copy_subtree(&mut self, from: &Arena, id: NodeId) -> NodeId {
        let mut node = from.node(id).clone();
        match &mut node.shape {
            Shape::List { item, .. } => *item = self.copy_subtree(from, *item),
            Shape::Map { value, .. } => *value = self.copy_subtree(from, *value),
            Shape::Struct(s) => {
                for (rank, field) in s.fields.iter_mut().enumerate() {
                    field.node = self.copy_subtree(from, field.node);
                    field.rank = u16::try_from(rank).unwrap_or(u16::MAX);
                }
                s.order = (0..s.fields.len()).filter_map(|at| u16::try_from(at).ok()).collect();
            }
            _ => {}
        }
        self.push(node)
    }

    /// The node `id`, which must not be one of the base, while the arena is being built.
    #[expect(clippy::indexing_slicing, reason = "ids are handed out by push and nodes are never removed")]
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[(id.0 as usize).wrapping_sub(self.base_len)]
    }
}
