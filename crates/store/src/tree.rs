//! A persistent, ordered tree with counts: a clone is cheap and does not see later changes, and the position of a key
//! among all others is found in O(log n).
//!
//! It is a B+ tree whose branches know how many items are below each child. A change copies the nodes on its path
//! that are shared with a clone.

use std::fmt;
use std::sync::Arc;

/// The maximum number of items of a leaf. A change copies the items of a leaf that a clone shares, and each copy
/// touches the memory of the item, so that large leaves make changes slow and small ones take memory.
const LEAF_MAX: usize = 16;
/// The maximum number of children of a branch.
const BRANCH_MAX: usize = 16;
/// A node with fewer items or children than this is merged with a neighbour that has room.
const NODE_MIN: usize = 5;
/// By how many items a leaf grows: doubling would waste half of it.
const LEAF_GROWTH: usize = 4;

/// An item of a tree. Its key never changes. A clone should be cheap.
pub trait Keyed: Clone {
    /// The key that orders the items, by bytes.
    fn key(&self) -> &str;
}

/// The tree, see the module.
#[derive(Clone)]
pub struct Tree<T> {
    root: Arc<Node<T>>,
    len: usize,
}

#[derive(Clone)]
enum Node<T> {
    Leaf(Vec<T>),
    Branch(Vec<Child<T>>),
}

#[derive(Clone)]
struct Child<T> {
    /// A lower bound for the keys below this child that is greater than every key before it. That of the first child
    /// is not used.
    from: Arc<str>,
    len: usize,
    node: Arc<Node<T>>,
}

impl<T> Default for Tree<T> {
    fn default() -> Tree<T> {
        Tree { root: Arc::default(), len: 0 }
    }
}

impl<T> Default for Node<T> {
    fn default() -> Node<T> {
        Node::Leaf(Vec::new())
    }
}

impl<T: Keyed> Tree<T> {
    /// Creates an empty tree.
    pub fn new() -> Tree<T> {
        Tree::default()
    }

    /// Creates a tree of these items. If several have the same key, the last one is used.
    pub fn from_items(mut items: Vec<T>) -> Tree<T> {
        if !items.is_sorted_by(|a, b| a.key() < b.key()) {
            // The sort is stable, so the last of several comes last.
            items.sort_by(|a, b| a.key().cmp(b.key()));
            items.reverse();
            items.dedup_by(|a, b| a.key() == b.key());
            items.reverse();
        }
        build(items)
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The item under `key`.
    pub fn get(&self, key: &str) -> Option<&T> {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(items) => return items.get(find(items, key).ok()?),
                Node::Branch(children) => node = &*children.get(child_of(children, key))?.node,
            }
        }
    }

    /// Inserts an item; returns the previous item with the same key.
    pub fn insert(&mut self, item: T) -> Option<T> {
        let (replaced, split) = insert(&mut self.root, item);
        if let Some(right) = split {
            let len = self.len.saturating_add(1).saturating_sub(right.len);
            let left = Child { from: Arc::from(""), len, node: self.root.clone() };
            self.root = Arc::new(Node::Branch(vec![left, right]));
        }
        if replaced.is_none() {
            self.len = self.len.saturating_add(1);
        }
        replaced
    }

    /// Removes the item with this key.
    pub fn remove(&mut self, key: &str) -> Option<T> {
        // Look up the key first, so that shared nodes stay shared if there is nothing to remove.
        self.get(key)?;
        let removed = remove(&mut self.root, key)?;
        self.len = self.len.saturating_sub(1);
        while let Node::Branch(children) = &*self.root
            && children.len() < 2
        {
            self.root = children.first().map_or_else(Arc::default, |only| only.node.clone());
        }
        Some(removed)
    }

    /// All items in order.
    pub fn iter(&self) -> Iter<'_, T> {
        self.iter_from("")
    }

    /// The items whose key is `start` or after it, in order.
    pub fn iter_from(&self, start: &str) -> Iter<'_, T> {
        let mut iter = Iter { above: Vec::new(), leaf: [].iter() };
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(items) => {
                    let at = items.partition_point(|item| item.key() < start);
                    iter.leaf = items.get(at..).unwrap_or_default().iter();
                    return iter;
                }
                Node::Branch(children) => {
                    let mut rest = children.get(child_of(children, start)..).unwrap_or_default().iter();
                    let Some(child) = rest.next() else { return iter };
                    iter.above.push(rest);
                    node = &*child.node;
                }
            }
        }
    }

    /// The number of leading items that satisfy `is_before`, which must be false for every string after one for which
    /// it is false.
    pub fn position(&self, is_before: impl Fn(&str) -> bool) -> usize {
        let mut passed = 0_usize;
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(items) => {
                    return passed.saturating_add(items.partition_point(|item| is_before(item.key())));
                }
                Node::Branch(children) => {
                    let later = children.get(1..).unwrap_or_default();
                    let at = later.partition_point(|child| is_before(&child.from));
                    passed = passed.saturating_add(children.iter().take(at).map(|child| child.len).sum());
                    let Some(child) = children.get(at) else { return passed };
                    node = &*child.node;
                }
            }
        }
    }
}

impl<T: Keyed> FromIterator<T> for Tree<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Tree<T> {
        Tree::from_items(items.into_iter().collect())
    }
}

impl<T: Keyed + fmt::Debug> fmt::Debug for Tree<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, T: Keyed> IntoIterator for &'a Tree<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// The items of a tree from somewhere on, in order.
pub struct Iter<'a, T> {
    /// For each branch above the leaf, from the root on, the children that follow.
    above: Vec<std::slice::Iter<'a, Child<T>>>,
    leaf: std::slice::Iter<'a, T>,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some(item) = self.leaf.next() {
                return Some(item);
            }
            let mut node = match self.above.last_mut()?.next() {
                Some(child) => &*child.node,
                None => {
                    self.above.pop();
                    continue;
                }
            };
            while let Node::Branch(children) = node {
                let mut children = children.iter();
                node = &*children.next()?.node;
                self.above.push(children);
            }
            if let Node::Leaf(items) = node {
                self.leaf = items.iter();
            }
        }
    }
}

impl<T> Node<T> {
    /// The number of items of a leaf or children of a branch.
    fn slots(&self) -> usize {
        match self {
            Node::Leaf(items) => items.len(),
            Node::Branch(children) => children.len(),
        }
    }
}

fn find<T: Keyed>(items: &[T], key: &str) -> Result<usize, usize> {
    items.binary_search_by(|item| item.key().cmp(key))
}

/// The child that has `key` if any has it.
fn child_of<T>(children: &[Child<T>], key: &str) -> usize {
    let later = children.get(1..).unwrap_or_default();
    later.partition_point(|child| &*child.from <= key)
}

/// A short string that is greater than every key up to `left` and not greater than `right`, the next key.
fn separator(left: &str, right: &str) -> Arc<str> {
    let same = left.bytes().zip(right.bytes()).take_while(|(a, b)| a == b).count();
    let end =
        (same.saturating_add(1)..right.len()).find(|end| right.is_char_boundary(*end)).unwrap_or(right.len());
    Arc::from(right.get(..end).unwrap_or(right))
}

/// Inserts below `node`. If the node had to be split, also returns the new node after it.
fn insert<T: Keyed>(node: &mut Arc<Node<T>>, item: T) -> (Option<T>, Option<Child<T>>) {
    match Arc::make_mut(node) {
        Node::Leaf(items) => match find(items, item.key()) {
            Ok(at) => (items.get_mut(at).map(|slot| std::mem::replace(slot, item)), None),
            Err(at) => (None, insert_into_leaf(items, at, item)),
        },
        Node::Branch(children) => {
            let at = child_of(children, item.key());
            let Some(child) = children.get_mut(at) else { return (None, None) };
            let (replaced, split) = insert(&mut child.node, item);
            if replaced.is_none() {
                child.len = child.len.saturating_add(1);
            }
            let Some(right) = split else { return (replaced, None) };
            child.len = child.len.saturating_sub(right.len);
            children.insert(at.saturating_add(1), right);
            (replaced, split_branch(children))
        }
    }
}

fn insert_into_leaf<T: Keyed>(items: &mut Vec<T>, at: usize, item: T) -> Option<Child<T>> {
    if items.len() < LEAF_MAX {
        if items.len() == items.capacity() {
            items.reserve_exact(LEAF_GROWTH.min(LEAF_MAX.saturating_sub(items.len())));
        }
        items.insert(at, item);
        return None;
    }
    // Keys often arrive in ascending order; then the old leaf stays full instead of half empty.
    let middle = if at == items.len() { at } else { items.len() / 2 };
    let mut right = Vec::with_capacity(items.len().saturating_sub(middle).saturating_add(1));
    right.extend(items.drain(middle..));
    match at.checked_sub(middle) {
        Some(at) => right.insert(at, item),
        None => items.insert(at, item),
    }
    let (last, first) = (items.last()?, right.first()?);
    let from = separator(last.key(), first.key());
    Some(Child { from, len: right.len(), node: Arc::new(Node::Leaf(right)) })
}

fn split_branch<T>(children: &mut Vec<Child<T>>) -> Option<Child<T>> {
    if children.len() <= BRANCH_MAX {
        return None;
    }
    let right: Vec<Child<T>> = children.drain(children.len() / 2..).collect();
    let from = right.first()?.from.clone();
    let len = right.iter().map(|child| child.len).sum();
    Some(Child { from, len, node: Arc::new(Node::Branch(right)) })
}

/// Removes the item under `key`, which must be there.
fn remove<T: Keyed>(node: &mut Arc<Node<T>>, key: &str) -> Option<T> {
    match Arc::make_mut(node) {
        Node::Leaf(items) => {
            let at = find(items, key).ok()?;
            Some(items.remove(at))
        }
        Node::Branch(children) => {
            let at = child_of(children, key);
            let child = children.get_mut(at)?;
            let removed = remove(&mut child.node, key)?;
            child.len = child.len.saturating_sub(1);
            if child.node.slots() < NODE_MIN {
                merge(children, at);
            }
            Some(removed)
        }
    }
}

/// Merges the child at `at` with a neighbour if both fit into one node, and drops it if it is empty.
fn merge<T: Keyed>(children: &mut Vec<Child<T>>, at: usize) {
    if children.get(at).is_some_and(|child| child.len == 0) {
        children.remove(at);
        return;
    }
    let fits = |left: usize| {
        let pair = children.get(left).zip(children.get(left.saturating_add(1)));
        pair.is_some_and(|(left, right)| {
            left.node.slots().saturating_add(right.node.slots()) <= LEAF_MAX.min(BRANCH_MAX)
        })
    };
    let left = match at.checked_sub(1) {
        Some(before) if fits(before) => before,
        _ if fits(at) => at,
        _ => return,
    };
    let right = children.remove(left.saturating_add(1));
    let Some(child) = children.get_mut(left) else { return };
    child.len = child.len.saturating_add(right.len);
    match (Arc::make_mut(&mut child.node), &*right.node) {
        (Node::Leaf(items), Node::Leaf(more)) => items.extend_from_slice(more),
        (Node::Branch(items), Node::Branch(more)) => items.extend_from_slice(more),
        _ => unreachable!("all leaves of a tree are at the same depth"),
    }
}

/// A tree of items that are in order, with full nodes.
fn build<T: Keyed>(items: Vec<T>) -> Tree<T> {
    let len = items.len();
    let mut level: Vec<Child<T>> = Vec::with_capacity(len.div_ceil(LEAF_MAX));
    let mut items = items.into_iter().peekable();
    let mut from: Arc<str> = Arc::from("");
    while items.peek().is_some() {
        let mut leaf = Vec::with_capacity(LEAF_MAX.min(items.len()));
        leaf.extend(items.by_ref().take(LEAF_MAX));
        let next = items.peek().zip(leaf.last()).map(|(next, last)| separator(last.key(), next.key()));
        let child = Child { from, len: leaf.len(), node: Arc::new(Node::Leaf(leaf)) };
        level.push(child);
        from = next.unwrap_or_else(|| Arc::from(""));
    }
    while level.len() > 1 {
        let mut above = Vec::with_capacity(level.len().div_ceil(BRANCH_MAX));
        let mut children = level.into_iter().peekable();
        while let Some(first) = children.peek() {
            let from = first.from.clone();
            let branch: Vec<Child<T>> = children.by_ref().take(BRANCH_MAX).collect();
            let len = branch.iter().map(|child| child.len).sum();
            above.push(Child { from, len, node: Arc::new(Node::Branch(branch)) });
        }
        level = above;
    }
    match level.pop() {
        Some(root) => Tree { root: root.node, len },
        None => Tree::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug, PartialEq)]
    struct Item(String, u64);

    impl Keyed for Item {
        fn key(&self) -> &str {
            &self.0
        }
    }

    type Model = BTreeMap<String, u64>;

    fn check(tree: &Tree<Item>, model: &Model) {
        check_node(&tree.root, tree.len, "", None, true);
        assert_eq!(tree.len(), model.len());
        assert!(tree.iter().map(|item| (&item.0, &item.1)).eq(model.iter()));
    }

    /// Counts, bounds and sizes of a node and all below it. Returns the height.
    fn check_node(node: &Node<Item>, len: usize, from: &str, until: Option<&str>, root: bool) -> usize {
        match node {
            Node::Leaf(items) => {
                assert_eq!(items.len(), len);
                assert!(items.len() <= LEAF_MAX && (root || !items.is_empty()));
                assert!(
                    items
                        .iter()
                        .all(|item| item.key() >= from && until.is_none_or(|until| item.key() < until))
                );
                0
            }
            Node::Branch(children) => {
                assert!(children.len() <= BRANCH_MAX && (!root || children.len() > 1));
                assert_eq!(children.iter().map(|child| child.len).sum::<usize>(), len);
                let heights: Vec<usize> = (0..children.len())
                    .map(|at| {
                        let child = &children[at];
                        let from = if at == 0 { from } else { &*child.from };
                        let until = children.get(at + 1).map(|next| &*next.from).or(until);
                        check_node(&child.node, child.len, from, until, false)
                    })
                    .collect();
                assert!(heights.iter().all(|height| *height == heights[0]));
                heights[0] + 1
            }
        }
    }

    /// A generator of pseudo-random numbers, the same in each run.
    fn numbers() -> impl FnMut(u64) -> u64 {
        let mut state = 0x1234_5678_9abc_def0_u64;
        move |below| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        }
    }

    #[test]
    fn does_what_a_map_does_and_old_clones_stay() {
        for (keys, steps) in [(30, 3000), (2000, 12_000)] {
            let mut next = numbers();
            let (mut tree, mut model) = (Tree::new(), Model::new());
            let mut old: Vec<(Tree<Item>, Model)> = Vec::new();
            for step in 0..steps {
                let key = format!("ns-{}/näme-{:04}", next(7), next(keys));
                // First it grows, then it shrinks to nothing.
                let grows = next(10) < if step < steps / 2 { 8 } else { 2 };
                if grows {
                    let replaced = tree.insert(Item(key.clone(), step));
                    assert_eq!(replaced.map(|item| item.1), model.insert(key, step));
                } else {
                    // Usually choose a key that exists.
                    let key = model.range(key.clone()..).next().map_or(key, |(key, _)| key.clone());
                    assert_eq!(tree.remove(&key).map(|item| item.1), model.remove(&key));
                }
                if step % (steps / 20) == 0 {
                    check(&tree, &model);
                    old.push((tree.clone(), model.clone()));
                }
            }
            old.iter().for_each(|(tree, model)| check(tree, model));
            for key in model.keys().cloned().collect::<Vec<_>>() {
                assert!(tree.remove(&key).is_some());
            }
            check(&tree, &Model::new());
        }
    }

    #[test]
    fn finds_positions_and_starts_anywhere() {
        let names: Vec<String> = (0..1000).map(|n| format!("{}/{n:03}", n % 5)).collect();
        for bulk in [true, false] {
            let items = names.iter().map(|name| Item(name.clone(), 0));
            let mut tree = Tree::new();
            if bulk {
                tree = items.collect()
            } else {
                items.for_each(|item| drop(tree.insert(item)))
            }
            let mut sorted = names.clone();
            sorted.sort();
            for start in ["", "0/", "1/1", "2/997", "2/9975", "4/999", "5", "zz"] {
                let expected: Vec<&String> = sorted.iter().filter(|name| name.as_str() >= start).collect();
                assert!(tree.iter_from(start).map(|item| &item.0).eq(expected.iter().copied()), "{start}");
                assert_eq!(tree.position(|key| key < start), sorted.len() - expected.len(), "{start}");
                let through = tree.position(|key| key < start || key.starts_with(start));
                let expected = sorted.iter().filter(|name| name.as_str() < start || name.starts_with(start));
                assert_eq!(through, expected.count(), "{start}");
            }
        }
    }

    #[test]
    fn a_position_costs_a_path_and_not_the_items() {
        let asked = |len: usize| {
            let tree: Tree<Item> = (0..len).map(|n| Item(format!("{n:07}"), 0)).collect();
            let count = std::cell::Cell::new(0);
            let middle = format!("{:07}", len / 2);
            let position = tree.position(|key| {
                count.set(count.get() + 1);
                key < middle.as_str()
            });
            assert_eq!(position, len / 2);
            count.get()
        };
        assert!(asked(100_000) <= asked(100) + 20, "{} after {}", asked(100_000), asked(100));
    }

    #[test]
    fn ascending_keys_fill_their_leaves() {
        let mut tree = Tree::new();
        for n in 0..10_000 {
            tree.insert(Item(format!("{n:05}"), n));
        }
        fn leaves(node: &Node<Item>) -> usize {
            match node {
                Node::Leaf(_) => 1,
                Node::Branch(children) => children.iter().map(|child| leaves(&child.node)).sum(),
            }
        }
        assert_eq!(leaves(&tree.root), 10_000_usize.div_ceil(LEAF_MAX));
    }

    #[test]
    fn of_items_with_the_same_key_the_last_stays() {
        let item = |key: &str, value| Item(key.to_owned(), value);
        let tree: Tree<Item> = [item("b", 1), item("a", 2), item("b", 3)].into_iter().collect();
        assert!(tree.iter().eq([&item("a", 2), &item("b", 3)]));
    }
}
