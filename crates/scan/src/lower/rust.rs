//! Rust. A path is a chain of attributes, so that `std::process::Command::new` is read as `std.process.Command.new`.

use super::{At, children, field, push, text};
use crate::code::{
    Arg, Bound, Change, Class, Code, FnId, Function, Id, Kind, Language, MAX_DEPTH, Param, ParamKind,
    ScopeId, ScopeKind, Spread,
};
use std::borrow::Cow;
use std::collections::HashMap;
use tree_sitter::Node;

/// A macro whose words may hold a call, to be read once more as statements.
pub struct Inside {
    pub range: tree_sitter::Range,
    pub scope: ScopeId,
}

pub struct Lowered<'a> {
    pub code: Code<'a>,
    pub inside: Vec<Inside>,
}

/// Macros that start what they are given, if their crate is in the table.
const STARTING: &[&str] = &[
    "cmd",
    "run_cmd",
    "run_fun",
    "spawn",
    "spawn_with_output",
    "run_script",
    "sh",
    "bash",
    "zsh",
    "fish",
    "run",
    "read",
    "cargo_bin_cmd",
];

pub fn lower<'a>(source: &'a str, root: Node<'_>) -> Lowered<'a> {
    let mut lowered = Lowered { code: Code::new(source, Language::Rust), inside: Vec::new() };
    lowered.each(root, At::TOP);
    lowered
}

impl<'a> Lowered<'a> {
    /// Lowers the statements in a macro.
    pub fn add(&mut self, root: Node<'_>, scope: ScopeId, depth: usize) {
        self.each(root, At { scope, depth, branch: true });
    }

    fn each(&mut self, node: Node<'_>, at: At) -> Vec<Id> {
        children(node).into_iter().map(|child| self.expression(child, at)).collect()
    }

    fn expression(&mut self, node: Node<'_>, at: At) -> Id {
        if at.depth > MAX_DEPTH {
            return push(&mut self.code, node, at, Kind::Other);
        }
        let below = at.below();
        let kind = match node.kind() {
            "identifier" | "type_identifier" | "crate" | "super" => Kind::Name(text(&self.code, node)),
            "self" => Kind::Name("self"),
            "scoped_identifier" | "scoped_type_identifier" => {
                match (field(node, "path"), field(node, "name")) {
                    (Some(path), Some(name)) => {
                        let path = self.expression(path, below);
                        Kind::Attr(path, text(&self.code, name))
                    }
                    (None, Some(name)) => Kind::Name(text(&self.code, name)),
                    _ => Kind::Other,
                }
            }
            "field_expression" => match (field(node, "value"), field(node, "field")) {
                (Some(value), Some(name)) => {
                    let value = self.expression(value, below);
                    Kind::Attr(value, text(&self.code, name))
                }
                _ => Kind::Other,
            },
            "generic_function" | "generic_type" => {
                match field(node, "function").or_else(|| field(node, "type")) {
                    Some(inner) => return self.expression(inner, below),
                    None => Kind::Other,
                }
            }
            "call_expression" => return self.call(node, at),
            "macro_invocation" => return self.invocation(node, at),
            "string_literal" | "raw_string_literal" => self.string(node),
            "boolean_literal" => Kind::Bool(text(&self.code, node) == "true"),
            "array_expression" | "tuple_expression" => Kind::List(self.each(node, below)),
            "reference_expression"
            | "try_expression"
            | "await_expression"
            | "parenthesized_expression"
            | "unary_expression" => match self.each(node, below).last() {
                Some(last) => return *last,
                None => Kind::Other,
            },
            "type_cast_expression" => match field(node, "value") {
                Some(value) => return self.expression(value, below),
                None => Kind::Other,
            },
            "binary_expression" => Kind::Joined(self.each(node, below)),
            "if_expression" | "match_expression" => self.branches(node, at),
            "else_clause" | "unsafe_block" | "async_block" => match self.each(node, below).last() {
                Some(last) => return *last,
                None => Kind::Other,
            },
            "for_expression" | "while_expression" | "loop_expression" => {
                self.each(node, at.branch());
                Kind::Other
            }
            "block" => {
                let scope = self.code.open_scope(at.scope, ScopeKind::Block);
                let parts = self.each(node, At { scope, ..below });
                let ends_with_value = children(node).last().is_some_and(|last| {
                    !matches!(last.kind(), "expression_statement" | "let_declaration")
                        && !last.kind().ends_with("_item")
                });
                match parts.last() {
                    Some(last) if ends_with_value => return *last,
                    _ => Kind::Other,
                }
            }
            "let_declaration" | "type_item" | "const_item" | "static_item" | "assignment_expression" => {
                self.definition(node, at);
                Kind::Other
            }
            "return_expression" => {
                let value = self.each(node, below).last().copied();
                if let (Some(value), Some(function)) = (value, self.code.scopes[at.scope].function) {
                    self.code.functions[function].returns.push(value);
                }
                Kind::Other
            }
            "use_declaration" => {
                if let Some(argument) = field(node, "argument") {
                    self.import(argument, "", at);
                }
                Kind::Other
            }
            "function_item" | "closure_expression" => Kind::Func(self.function(node, at)),
            "impl_item" => {
                self.implementation(node, at);
                Kind::Other
            }
            "mod_item" => {
                self.module(node, at);
                Kind::Other
            }
            "line_comment" | "block_comment" | "attribute_item" | "type_arguments" => Kind::Other,
            _ => {
                self.each(node, below);
                Kind::Other
            }
        };
        push(&mut self.code, node, at, kind)
    }

    fn string(&self, node: Node<'_>) -> Kind<'a> {
        let parts: Vec<Node<'_>> =
            children(node).into_iter().filter(|part| part.kind() == "string_content").collect();
        let content = match parts.as_slice() {
            [] => Cow::Borrowed(""),
            [one] => Cow::Borrowed(text(&self.code, *one)),
            many => many.iter().map(|part| text(&self.code, *part)).collect::<String>().into(),
        };
        Kind::Text(Some(content), Vec::new())
    }

    /// `if` and `match`: one of their values.
    fn branches(&mut self, node: Node<'_>, at: At) -> Kind<'a> {
        if let Some(decides) = field(node, "condition").or_else(|| field(node, "value")) {
            self.expression(decides, at.below());
        }
        let arms = field(node, "body").map(children).unwrap_or_default();
        let of_match = arms.into_iter().filter_map(|arm| field(arm, "value"));
        let of_if = ["consequence", "alternative"].iter().filter_map(|part| field(node, part));
        let parts: Vec<Node<'_>> = of_if.chain(of_match).collect();
        Kind::Either(parts.into_iter().map(|part| self.expression(part, at.branch())).collect())
    }

    /// What binds a name or sets a field.
    fn definition(&mut self, node: Node<'_>, at: At) {
        let below = at.below();
        let given = match node.kind() {
            "type_item" => field(node, "type"),
            "assignment_expression" => field(node, "right"),
            _ => field(node, "value"),
        };
        let value = given.map(|given| self.expression(given, below));
        let target = ["pattern", "name", "left"].iter().find_map(|name| field(node, name));
        if let (Some(target), Some(value)) = (target, value) {
            match node.kind() {
                "let_declaration" => self.bind(target, value, at),
                "assignment_expression" if target.kind() == "identifier" => {
                    self.bind(target, value, at.branch());
                }
                "assignment_expression" => {
                    let target = self.expression(target, below);
                    if let Kind::Attr(of, name) = self.code.expr(target).kind {
                        let change = Change::Set { key: Some(name.into()), value };
                        self.code.changed(of, at.scope, node.start_byte(), change);
                    }
                }
                kind => {
                    // A type holds in its whole scope.
                    let from = if kind == "type_item" { 0 } else { node.start_byte() };
                    let branch = kind != "type_item" && at.branch;
                    let name = text(&self.code, target);
                    self.code.bind(at.scope, name, Bound::Value(value), from, branch);
                }
            }
        }
        if let Some(otherwise) = field(node, "alternative") {
            self.expression(otherwise, at.branch());
        }
    }

    fn module(&mut self, node: Node<'_>, at: At) {
        let scope = self.code.open_scope(at.scope, ScopeKind::Block);
        match (field(node, "body"), field(node, "name")) {
            (Some(body), _) => {
                self.each(body, at.inside(scope));
            }
            // A module in a file of its own.
            (None, Some(name)) => {
                let name = text(&self.code, name);
                let bound = Bound::Import { module: format!("self.{name}").into(), name: None };
                self.code.bind(at.scope, name, bound, 0, false);
            }
            _ => {}
        }
    }

    fn bind(&mut self, pattern: Node<'_>, value: Id, at: At) {
        match pattern.kind() {
            "identifier" => {
                let name = text(&self.code, pattern);
                self.code.bind(at.scope, name, Bound::Value(value), pattern.start_byte(), at.branch);
            }
            // `Ok(child)`, `(a, b)`, `mut x`.
            _ => {
                for part in children(pattern) {
                    self.bind(part, value, at.below());
                }
            }
        }
    }

    fn call(&mut self, node: Node<'_>, at: At) -> Id {
        let below = at.below();
        let Some(func) = field(node, "function") else { return push(&mut self.code, node, at, Kind::Other) };
        let func = self.expression(func, below);
        let mut args = Vec::new();
        for child in field(node, "arguments").map(children).unwrap_or_default() {
            args.push(Arg { name: None, spread: Spread::No, value: self.expression(child, below) });
        }
        let id = push(&mut self.code, node, at, Kind::Call { func, args, tagged: false });
        self.code.calls.push(id);
        id
    }

    /// A macro: its strings are its arguments, and what looks like code is read once more.
    fn invocation(&mut self, node: Node<'_>, at: At) -> Id {
        let name = field(node, "macro");
        let below = at.below();
        let Some(name) = name else { return push(&mut self.code, node, at, Kind::Other) };
        let bare = text(&self.code, name).rsplit("::").next().unwrap_or("");
        let tree = children(node).into_iter().find(|child| child.kind() == "token_tree");
        if matches!(bare, "format" | "concat") {
            return push(&mut self.code, node, at, Kind::Text(None, Vec::new()));
        }
        if STARTING.contains(&bare) {
            let func = self.expression(name, below);
            let mut args = Vec::new();
            for child in tree.map(children).unwrap_or_default() {
                args.push(Arg { name: None, spread: Spread::No, value: self.expression(child, below) });
            }
            let id = push(&mut self.code, node, at, Kind::Call { func, args, tagged: true });
            self.code.calls.push(id);
            if bare == "cmd" {
                return id;
            }
        }
        if let Some(tree) = tree {
            let words = text(&self.code, tree);
            if words.contains("::") && words.len() > 2 {
                let mut range = tree.range();
                range.start_byte += 1;
                range.start_point.column += 1;
                range.end_byte = range.end_byte.saturating_sub(1).max(range.start_byte);
                range.end_point.column = range.end_point.column.saturating_sub(1);
                self.inside.push(Inside { range, scope: at.scope });
            }
        }
        push(&mut self.code, node, at, Kind::Other)
    }

    fn import(&mut self, node: Node<'_>, prefix: &str, at: At) {
        let joined = |more: &str| {
            let more = more.replace("::", ".");
            if prefix.is_empty() { more } else { format!("{prefix}.{more}") }
        };
        match node.kind() {
            "use_list" => {
                for child in children(node) {
                    self.import(child, prefix, at.below());
                }
            }
            "scoped_use_list" => {
                let path = field(node, "path").map(|path| text(&self.code, path)).unwrap_or("");
                let prefix = if path.is_empty() { prefix.to_owned() } else { joined(path) };
                if let Some(list) = field(node, "list") {
                    self.import(list, &prefix, at.below());
                }
            }
            "use_as_clause" => {
                if let (Some(path), Some(alias)) = (field(node, "path"), field(node, "alias")) {
                    let (path, alias) = (joined(text(&self.code, path)), text(&self.code, alias));
                    let bound = Bound::Import { module: path.into(), name: None };
                    self.code.bind(at.scope, alias, bound, node.start_byte(), false);
                }
            }
            "use_wildcard" => {
                if let Some(path) = children(node).first() {
                    let path = joined(text(&self.code, *path));
                    self.code.stars.push(path.into());
                }
            }
            "self" => {
                let name = prefix.rsplit('.').next().unwrap_or("");
                // The name stands in the text, before the list.
                if let Some(start) = self.code.text[..node.start_byte()].rfind(name) {
                    let name = &self.code.text[start..start + name.len()];
                    let bound = Bound::Import { module: prefix.to_owned().into(), name: None };
                    self.code.bind(at.scope, name, bound, node.start_byte(), false);
                }
            }
            _ => {
                let path = text(&self.code, node);
                let name = path.rsplit("::").next().unwrap_or(path);
                let bound = Bound::Import { module: joined(path).into(), name: None };
                self.code.bind(at.scope, name, bound, node.start_byte(), false);
            }
        }
    }

    fn function(&mut self, node: Node<'_>, at: At) -> FnId {
        let name = field(node, "name").map_or("", |name| text(&self.code, name));
        let class = match self.code.scopes[at.scope].kind {
            ScopeKind::Class => self.code.scopes[at.scope].class,
            _ => None,
        };
        let scope = self.code.open_scope(at.scope, ScopeKind::Function);
        let id = self.code.functions.len();
        let decorators = Vec::new();
        let function = Function { name, params: Vec::new(), returns: Vec::new(), scope, class, decorators };
        self.code.functions.push(function);
        self.code.scopes[scope].function = Some(id);
        if !name.is_empty() {
            self.code.bind(at.scope, name, Bound::Func(id), node.start_byte(), false);
            if let Some(class) = class {
                self.code.classes[class].methods.insert(name, id);
            }
        }
        let inside = at.inside(scope);
        for param in field(node, "parameters").map(children).unwrap_or_default() {
            let pattern = field(param, "pattern").unwrap_or(param);
            let name = match pattern.kind() {
                "self_parameter" | "self" => continue,
                _ => text(&self.code, pattern),
            };
            let of_type = field(param, "type").map(|of_type| text(&self.code, of_type));
            let index = self.code.functions[id].params.len();
            let param = Param { name, default: None, kind: ParamKind::Plain, of_type };
            self.code.functions[id].params.push(param);
            let bound = Bound::Param { function: id, index };
            self.code.bind(scope, name, bound, pattern.start_byte(), false);
        }
        if let Some(body) = field(node, "body") {
            let value = self.expression(body, inside);
            self.code.functions[id].returns.push(value);
        }
        id
    }

    fn implementation(&mut self, node: Node<'_>, at: At) {
        let name = field(node, "type").map_or("", |name| text(&self.code, name));
        let scope = self.code.open_scope(at.scope, ScopeKind::Class);
        let id = self.code.classes.len();
        let class = Class { name, bases: Vec::new(), methods: HashMap::new(), fields: HashMap::new() };
        self.code.classes.push(class);
        self.code.scopes[scope].class = Some(id);
        if let Some(body) = field(node, "body") {
            self.each(body, at.inside(scope));
        }
    }
}
