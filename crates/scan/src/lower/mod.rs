//! One front end for each language: from a tree of its grammar to [`Code`](crate::code::Code). A tree with errors gives what can be read.

pub mod go;
pub mod javascript;
pub mod python;
pub mod rust;

use crate::code::{Code, Expr, Id, Kind, ScopeId};
use tree_sitter::Node;

/// Where a node stands.
#[derive(Clone, Copy)]
pub struct At {
    pub scope: ScopeId,
    pub depth: usize,
    /// Inside a branch or loop of its scope.
    pub branch: bool,
}

impl At {
    pub const TOP: At = At { scope: 0, depth: 0, branch: false };

    pub fn below(self) -> At {
        At { depth: self.depth + 1, ..self }
    }

    pub fn branch(self) -> At {
        At { depth: self.depth + 1, branch: true, ..self }
    }

    pub fn inside(self, scope: ScopeId) -> At {
        At { scope, depth: self.depth + 1, branch: false }
    }
}

pub fn text<'a>(code: &Code<'a>, node: Node<'_>) -> &'a str {
    code.text.get(node.byte_range()).unwrap_or("")
}

pub fn push<'a>(code: &mut Code<'a>, node: Node<'_>, at: At, kind: Kind<'a>) -> Id {
    let place = node.start_position();
    code.exprs.push(Expr {
        kind,
        start: node.start_byte(),
        end: node.end_byte(),
        row: place.row,
        column: place.column,
        scope: at.scope,
    });
    code.exprs.len() - 1
}

/// The named children, without comments.
pub fn children<'t>(node: Node<'t>) -> Vec<Node<'t>> {
    let mut cursor = node.walk();
    node.named_children(&mut cursor).filter(|child| !child.is_extra()).collect()
}

pub fn field<'t>(node: Node<'t>, name: &str) -> Option<Node<'t>> {
    node.child_by_field_name(name)
}

/// Whether a child that is not named has this text, such as an operator.
pub fn has_token(node: Node<'_>, token: &str) -> bool {
    let mut cursor = node.walk();
    node.children(&mut cursor).any(|child| child.kind() == token)
}
