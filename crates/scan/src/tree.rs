//! Configuration as a tree with places: YAML, JSON with comments, and TOML are read into the same shape. Pure.

use saphyr_parser::{Event, Parser as Yaml};
use tree_sitter::Node;

#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    pub what: What,
    pub row: usize,
    pub column: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

/// More entries than this are not read: an alias can make a small file large.
const MAX_DEPTH: usize = 60;

impl Tree {
    pub fn get(&self, key: &str) -> Option<&Tree> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub fn entries(&self) -> &[(String, Tree)] {
        match &self.what {
            What::Map(entries) => entries,
            _ => &[],
        }
    }

    pub fn items(&self) -> &[Tree] {
        match &self.what {
            What::List(items) => items,
            _ => &[],
        }
    }

    pub fn text(&self) -> Option<&str> {
        match &self.what {
            What::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A text, or the words of a list.
    pub fn words(&self) -> Vec<&str> {
        match &self.what {
            What::Text(text) => vec![text],
            What::List(items) => items.iter().filter_map(Tree::text).collect(),
            What::Map(_) => Vec::new(),
        }
    }
}

/// What is not closed yet, and the key that waits for its value, with its place.
type Opened = (Tree, Option<(String, usize, usize)>);

/// The documents of a YAML file, up to the first mistake.
pub fn yaml(source: &str) -> Vec<Tree> {
    let mut documents = Vec::new();
    let mut stack: Vec<Opened> = Vec::new();
    for event in Yaml::new_from_str(source) {
        let Ok((event, span)) = event else { break };
        let (row, column) = (span.start.line().saturating_sub(1), span.start.col());
        let done = match event {
            Event::Scalar(text, ..) => Some(Tree { what: What::Text(text.into_owned()), row, column }),
            Event::Alias(_) => Some(Tree { what: What::Text(String::new()), row, column }),
            Event::SequenceStart(..) | Event::MappingStart(..) if stack.len() > MAX_DEPTH => break,
            Event::SequenceStart(..) => {
                stack.push((Tree { what: What::List(Vec::new()), row, column }, None));
                None
            }
            Event::MappingStart(..) => {
                stack.push((Tree { what: What::Map(Vec::new()), row, column }, None));
                None
            }
            Event::SequenceEnd | Event::MappingEnd => stack.pop().map(|(tree, _)| tree),
            _ => None,
        };
        let Some(done) = done else { continue };
        match stack.last_mut() {
            None => documents.push(done),
            Some((Tree { what: What::List(items), .. }, _)) => items.push(done),
            Some((Tree { what: What::Map(entries), .. }, key)) => match key.take() {
                None => *key = Some((done.text().unwrap_or_default().to_owned(), row, column)),
                Some((key, row, column)) => {
                    // A text of several lines begins where its key stands.
                    let text_below = done.row != row && done.text().is_some();
                    let done = if text_below { Tree { row, column, ..done } } else { done };
                    entries.push((key, done));
                }
            },
            Some(_) => {}
        }
    }
    // What was open at a mistake still counts.
    while let Some((tree, _)) = stack.pop() {
        match stack.last_mut() {
            None => documents.push(tree),
            Some((Tree { what: What::List(items), .. }, _)) => items.push(tree),
            Some((Tree { what: What::Map(entries), .. }, key)) => {
                if let Some((key, ..)) = key.take() {
                    entries.push((key, tree));
                }
            }
            Some(_) => {}
        }
    }
    documents
}

/// JSON, also with comments and with commas at the end: an expression of JavaScript, between brackets.
pub fn json(wrapped: &str, root: Node<'_>) -> Option<Tree> {
    let mut node = root;
    for _ in 0..6 {
        let mut cursor = node.walk();
        let inner = node.named_children(&mut cursor).find(|child| !child.is_extra())?;
        if matches!(inner.kind(), "object" | "array") {
            return Some(json_value(wrapped, inner, 0));
        }
        node = inner;
    }
    None
}

fn json_value(source: &str, node: Node<'_>, depth: usize) -> Tree {
    let place = node.start_position();
    let column = if place.row == 0 { place.column.saturating_sub(1) } else { place.column };
    let text = source.get(node.byte_range()).unwrap_or("");
    let mut cursor = node.walk();
    let children: Vec<Node<'_>> =
        node.named_children(&mut cursor).filter(|child| !child.is_extra()).collect();
    let what = match node.kind() {
        _ if depth > MAX_DEPTH => What::Text(String::new()),
        "object" => What::Map(
            children
                .into_iter()
                .filter(|child| child.kind() == "pair")
                .filter_map(|pair| {
                    let key = pair.child_by_field_name("key")?;
                    let value = pair.child_by_field_name("value")?;
                    Some((unquoted(source.get(key.byte_range())?), json_value(source, value, depth + 1)))
                })
                .collect(),
        ),
        "array" => {
            What::List(children.into_iter().map(|child| json_value(source, child, depth + 1)).collect())
        }
        _ => What::Text(unquoted(text)),
    };
    Tree { what, row: place.row, column }
}

fn unquoted(text: &str) -> String {
    serde_json::from_str::<String>(text).unwrap_or_else(|_| text.trim_matches('"').to_owned())
}

pub fn toml(source: &str) -> Option<Tree> {
    let document = source.parse::<toml_edit::Document<String>>().ok()?;
    let starts: Vec<usize> =
        std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1)).collect();
    Some(toml_item(document.as_item(), &starts, 0))
}

fn toml_item(item: &toml_edit::Item, starts: &[usize], depth: usize) -> Tree {
    let at = item.span().map_or(0, |span| span.start);
    let row = starts.partition_point(|start| *start <= at).saturating_sub(1);
    let column = at - starts.get(row).copied().unwrap_or(0);
    let what = if depth > MAX_DEPTH {
        What::Text(String::new())
    } else if let Some(table) = item.as_table_like() {
        What::Map(
            table.iter().map(|(key, item)| (key.to_owned(), toml_item(item, starts, depth + 1))).collect(),
        )
    } else if let Some(tables) = item.as_array_of_tables() {
        What::List(
            tables
                .iter()
                .map(|table| toml_item(&toml_edit::Item::Table(table.clone()), starts, depth + 1))
                .collect(),
        )
    } else if let Some(array) = item.as_array() {
        What::List(
            array
                .iter()
                .map(|value| toml_item(&toml_edit::Item::Value(value.clone()), starts, depth + 1))
                .collect(),
        )
    } else {
        What::Text(item.as_str().unwrap_or_default().to_owned())
    };
    Tree { what, row, column }
}
