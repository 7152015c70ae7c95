//! Python, also of version 2 as far as the grammar reads it.

use super::{At, children, field, has_token, push, text};
use crate::code::{
    Arg, Bound, Change, Class, Code, Entry, FnId, Function, Id, Kind, Language, MAX_DEPTH, Param, ParamKind,
    ScopeKind, Spread,
};
use std::borrow::Cow;
use std::collections::HashMap;
use tree_sitter::Node;

pub fn lower<'a>(source: &'a str, root: Node<'_>) -> Code<'a> {
    let mut code = Code::new(source, Language::Python);
    statements(&mut code, root, At::TOP);
    code
}

fn statements(code: &mut Code<'_>, node: Node<'_>, at: At) {
    for child in children(node) {
        statement(code, child, at);
    }
}

fn statement<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) {
    if at.depth > MAX_DEPTH {
        return;
    }
    match node.kind() {
        "expression_statement" => {
            for child in children(node) {
                expression(code, child, at.below());
            }
        }
        "import_statement" => import(code, node, at),
        "import_from_statement" | "future_import_statement" => import_from(code, node, at),
        "function_definition" => {
            function(code, node, at, Vec::new());
        }
        "class_definition" => class(code, node, at),
        "decorated_definition" => decorated(code, node, at),
        "return_statement" => {
            let value = children(node).first().map(|value| expression(code, *value, at.below()));
            if let (Some(value), Some(function)) = (value, code.scopes[at.scope].function) {
                code.functions[function].returns.push(value);
            }
        }
        "delete_statement" => {
            for child in children(node) {
                let targets = if child.kind() == "expression_list" { children(child) } else { vec![child] };
                for target in targets {
                    if target.kind() == "subscript"
                        && let Some(value) = field(target, "value")
                    {
                        let of = expression(code, value, at.below());
                        code.changed(of, at.scope, node.start_byte(), Change::Removed);
                    }
                }
            }
        }
        "if_statement"
        | "elif_clause"
        | "else_clause"
        | "try_statement"
        | "except_clause"
        | "finally_clause"
        | "while_statement"
        | "match_statement"
        | "case_clause"
        | "except_group_clause" => {
            for child in children(node) {
                statement(code, child, at.branch());
            }
        }
        "for_statement" => {
            let over = field(node, "right").map(|right| expression(code, right, at.below()));
            if let (Some(left), Some(over)) = (field(node, "left"), over) {
                elements(code, left, over, at.branch());
            }
            for part in ["body", "alternative"].iter().filter_map(|part| field(node, part)) {
                statement(code, part, at.branch());
            }
        }
        "with_statement" | "with_clause" | "block" | "module" | "ERROR" => statements(code, node, at.below()),
        "with_item" => {
            for child in children(node) {
                expression(code, child, at.below());
            }
        }
        "comment" | "pass_statement" | "break_statement" | "continue_statement" | "global_statement"
        | "nonlocal_statement" => {}
        _ => {
            expression(code, node, at);
        }
    }
}

fn import<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) {
    note_import(code, node, at);
    for child in children(node) {
        let (name, alias) = match child.kind() {
            "aliased_import" => (field(child, "name"), field(child, "alias")),
            _ => (Some(child), None),
        };
        let Some(name) = name.map(|name| text(code, name)) else { continue };
        match alias {
            Some(alias) => {
                let alias = text(code, alias);
                let bound = Bound::Import { module: name.into(), name: None };
                code.bind(at.scope, alias, bound, node.start_byte(), at.branch);
            }
            // `import a.b` binds `a`.
            None => {
                let first = name.split('.').next().unwrap_or(name);
                let bound = Bound::Import { module: first.into(), name: None };
                code.bind(at.scope, first, bound, node.start_byte(), at.branch);
            }
        }
    }
}

fn import_from<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) {
    note_import(code, node, at);
    let Some(module) = field(node, "module_name") else { return };
    let name_of_module = text(code, module);
    for child in children(node) {
        if child.id() == module.id() {
            continue;
        }
        let (name, alias) = match child.kind() {
            "aliased_import" => (field(child, "name"), field(child, "alias")),
            "wildcard_import" => {
                code.stars.push(name_of_module.into());
                continue;
            }
            _ => (Some(child), Some(child)),
        };
        if let (Some(name), Some(alias)) = (name, alias) {
            let (name, alias) = (text(code, name), text(code, alias));
            let bound = Bound::Import { module: name_of_module.into(), name: Some(name.into()) };
            code.bind(at.scope, alias, bound, node.start_byte(), at.branch);
        }
    }
}

fn note_import(code: &mut Code<'_>, node: Node<'_>, at: At) {
    if at.scope == 0 && !at.branch {
        let (first, _) = code.imports.unwrap_or((node.start_byte(), 0));
        code.imports = Some((first, node.end_byte()));
    }
}

fn decorated(code: &mut Code<'_>, node: Node<'_>, at: At) {
    let mut decorators = Vec::new();
    for child in children(node) {
        match child.kind() {
            "decorator" => {
                for inner in children(child) {
                    decorators.push(expression(code, inner, at.below()));
                }
            }
            "function_definition" => {
                function(code, child, at, std::mem::take(&mut decorators));
            }
            "class_definition" => class(code, child, at),
            _ => statement(code, child, at),
        }
    }
}

fn function<'a>(code: &mut Code<'a>, node: Node<'_>, at: At, decorators: Vec<Id>) -> FnId {
    let name = field(node, "name").map_or("", |name| text(code, name));
    let class = match code.scopes[at.scope].kind {
        ScopeKind::Class => code.scopes[at.scope].class,
        _ => None,
    };
    let scope = code.open_scope(at.scope, ScopeKind::Function);
    let id = code.functions.len();
    code.functions.push(Function { name, params: Vec::new(), returns: Vec::new(), scope, class, decorators });
    code.scopes[scope].function = Some(id);
    if !name.is_empty() {
        code.bind(at.scope, name, Bound::Func(id), node.start_byte(), at.branch);
        if let Some(class) = class {
            code.classes[class].methods.insert(name, id);
        }
    }
    if let Some(params) = field(node, "parameters") {
        parameters(code, params, id, scope, at);
    }
    if let Some(body) = field(node, "body") {
        if node.kind() == "lambda" {
            let value = expression(code, body, at.inside(scope));
            code.functions[id].returns.push(value);
        } else {
            statements(code, body, at.inside(scope));
        }
    }
    id
}

fn parameters<'a>(code: &mut Code<'a>, node: Node<'_>, id: FnId, scope: usize, at: At) {
    for param in children(node) {
        let (name, default, kind) = match param.kind() {
            "identifier" => (Some(param), None, ParamKind::Plain),
            "default_parameter" | "typed_default_parameter" => {
                (field(param, "name"), field(param, "value"), ParamKind::Plain)
            }
            "typed_parameter" => {
                let inner = children(param).into_iter().next();
                match inner.map(|inner| inner.kind()) {
                    Some("list_splat_pattern") => (inner.and_then(first), None, ParamKind::Rest),
                    Some("dictionary_splat_pattern") => (inner.and_then(first), None, ParamKind::KeywordRest),
                    _ => (inner, None, ParamKind::Plain),
                }
            }
            "list_splat_pattern" => (first(param), None, ParamKind::Rest),
            "dictionary_splat_pattern" => (first(param), None, ParamKind::KeywordRest),
            _ => continue,
        };
        let Some(name) = name.map(|name| text(code, name)) else { continue };
        let default = default.map(|default| expression(code, default, at.below()));
        let of_type = field(param, "type").map(|of_type| text(code, of_type));
        let index = code.functions[id].params.len();
        code.functions[id].params.push(Param { name, default, kind, of_type });
        code.bind(scope, name, Bound::Param { function: id, index }, node.start_byte(), false);
    }
}

fn first(node: Node<'_>) -> Option<Node<'_>> {
    children(node).into_iter().next()
}

fn class<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) {
    let name = field(node, "name").map_or("", |name| text(code, name));
    let mut bases = Vec::new();
    for base in field(node, "superclasses").map(children).unwrap_or_default() {
        if base.kind() != "keyword_argument" {
            bases.push(expression(code, base, at.below()));
        }
    }
    let scope = code.open_scope(at.scope, ScopeKind::Class);
    let id = code.classes.len();
    code.classes.push(Class { name, bases, methods: HashMap::new(), fields: HashMap::new() });
    code.scopes[scope].class = Some(id);
    code.bind(at.scope, name, Bound::Class(id), node.start_byte(), at.branch);
    if let Some(body) = field(node, "body") {
        statements(code, body, at.inside(scope));
    }
}

/// Binds the target of an assignment.
fn assign<'a>(code: &mut Code<'a>, left: Node<'_>, value: Id, at: At) {
    match left.kind() {
        "identifier" => {
            let name = text(code, left);
            code.bind(at.scope, name, Bound::Value(value), left.start_byte(), at.branch);
            if code.scopes[at.scope].kind == ScopeKind::Class
                && let Some(class) = code.scopes[at.scope].class
            {
                code.classes[class].fields.entry(name).or_default().push(value);
            }
        }
        "attribute" => {
            let target = expression(code, left, at.below());
            if let Kind::Attr(of, name) = code.expr(target).kind {
                if matches!(code.expr(of).kind, Kind::Name("self" | "cls"))
                    && let Some(class) = code.scopes[at.scope].class
                {
                    code.classes[class].fields.entry(name).or_default().push(value);
                }
                code.changed(of, at.scope, left.start_byte(), Change::Set { key: Some(name.into()), value });
            }
        }
        "subscript" => {
            if let Some(of) = field(left, "value") {
                let of = expression(code, of, at.below());
                let key = field(left, "subscript").map(|key| expression(code, key, at.below()));
                let key = key.and_then(|key| code.literal(key).map(|key| Cow::Owned(key.to_owned())));
                code.changed(of, at.scope, left.start_byte(), Change::Set { key, value });
            }
        }
        "pattern_list" | "tuple_pattern" | "list_pattern" => {
            let parts = match &code.expr(value).kind {
                Kind::List(parts) => parts.clone(),
                _ => Vec::new(),
            };
            for (index, part) in children(left).into_iter().enumerate() {
                match parts.get(index) {
                    Some(value) => assign(code, part, *value, at.below()),
                    None if part.kind() == "identifier" => {
                        let name = text(code, part);
                        let bound = Bound::Part { whole: value, key: index.to_string().into() };
                        code.bind(at.scope, name, bound, part.start_byte(), at.branch);
                    }
                    None => {}
                }
            }
        }
        _ => {}
    }
}

/// Binds the target of a loop to an element of what is looped over.
fn elements<'a>(code: &mut Code<'a>, left: Node<'_>, over: Id, at: At) {
    if left.kind() == "identifier" {
        let name = text(code, left);
        let bound = Bound::Part { whole: over, key: "*".into() };
        code.bind(at.scope, name, bound, left.start_byte(), at.branch);
    } else {
        for part in children(left) {
            if part.kind() == "identifier" {
                // A part of an element: which one does not matter here.
                let name = text(code, part);
                let bound = Bound::Part { whole: over, key: "*.*".into() };
                code.bind(at.scope, name, bound, part.start_byte(), at.branch);
            }
        }
    }
}

fn expression<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> Id {
    if at.depth > MAX_DEPTH {
        return push(code, node, at, Kind::Other);
    }
    let below = at.below();
    let kind = match node.kind() {
        "identifier" => Kind::Name(text(code, node)),
        "attribute" => match (field(node, "object"), field(node, "attribute")) {
            (Some(of), Some(name)) => {
                let of = expression(code, of, below);
                Kind::Attr(of, text(code, name))
            }
            _ => Kind::Other,
        },
        "subscript" => match (field(node, "value"), field(node, "subscript")) {
            (Some(of), Some(index)) => {
                let (of, index) = (expression(code, of, below), expression(code, index, below));
                let id = push(code, node, at, Kind::Index(of, index));
                code.indexes.push(id);
                return id;
            }
            _ => Kind::Other,
        },
        "call" => return call(code, node, at),
        "string" | "concatenated_string" => string(code, node, at),
        "dictionary" => Kind::Map(dictionary(code, node, below)),
        "list" | "tuple" | "set" | "expression_list" => Kind::List(each(code, node, below)),
        "conditional_expression" | "boolean_operator" | "binary_operator" => operator(code, node, below),
        "parenthesized_expression" | "await" | "unary_operator" | "list_splat" | "dictionary_splat" => {
            let parts = each(code, node, below);
            match parts.as_slice() {
                [one] => return *one,
                _ => Kind::Other,
            }
        }
        "yield" => {
            let parts = each(code, node, below);
            if let (Some(value), Some(function)) = (parts.first(), code.scopes[at.scope].function) {
                code.functions[function].returns.push(*value);
            }
            Kind::Other
        }
        "named_expression" => match (field(node, "name"), field(node, "value")) {
            (Some(name), Some(value)) => {
                let value = expression(code, value, below);
                assign(code, name, value, at);
                return value;
            }
            _ => Kind::Other,
        },
        "as_pattern" => match as_pattern(code, node, at) {
            Some(value) => return value,
            None => Kind::Other,
        },
        "assignment" => return assignment(code, node, at),
        "augmented_assignment" => {
            augmented(code, node, at);
            Kind::Other
        }
        "dictionary_comprehension" | "list_comprehension" | "generator_expression" | "set_comprehension" => {
            comprehension(code, node, at)
        }
        "lambda" => Kind::Func(function(code, node, at, Vec::new())),
        "function_definition"
        | "class_definition"
        | "decorated_definition"
        | "block"
        | "import_statement"
        | "import_from_statement"
        | "if_statement"
        | "for_statement"
        | "try_statement"
        | "with_statement"
        | "while_statement"
        | "return_statement"
        | "expression_statement"
        | "delete_statement"
        | "else_clause"
        | "except_clause"
        | "finally_clause"
        | "elif_clause"
        | "case_clause" => {
            statement(code, node, below);
            Kind::Other
        }
        "none" => Kind::Nothing,
        "true" => Kind::Bool(true),
        "false" => Kind::Bool(false),
        "integer" => Kind::Bool(text(code, node) != "0"),
        _ => {
            for child in children(node) {
                statement(code, child, below);
            }
            Kind::Other
        }
    };
    push(code, node, at, kind)
}

fn dictionary<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> Vec<Entry<'a>> {
    let mut entries = Vec::new();
    for child in children(node) {
        if child.kind() == "pair" {
            let key = field(child, "key").map(|key| expression(code, key, at));
            let Some(value) = field(child, "value") else { continue };
            let value = expression(code, value, at);
            let key = key.and_then(|key| code.literal(key)).unwrap_or("").to_owned();
            entries.push(Entry { key: Some(key.into()), value });
        } else if let Some(inner) = first(child) {
            let value = expression(code, inner, at);
            entries.push(Entry { key: None, value });
        }
    }
    entries
}

/// What two or three expressions are together: one of them, or all put together.
fn operator<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> Kind<'a> {
    let parts = each(code, node, at);
    match node.kind() {
        // The condition stands in the middle.
        "conditional_expression" => {
            let values = parts.iter().enumerate().filter(|(index, _)| *index != 1);
            Kind::Either(values.map(|(_, id)| *id).collect())
        }
        // `a and b` is b, or something that counts as false.
        "boolean_operator" if has_token(node, "and") => {
            Kind::Either(parts.get(1..).unwrap_or_default().to_vec())
        }
        "boolean_operator" => Kind::Either(parts),
        _ if ["+", "|", "%"].iter().any(|token| has_token(node, token)) => Kind::Joined(parts),
        _ => Kind::Other,
    }
}

/// `x as y`, in a `with` statement or a pattern.
fn as_pattern(code: &mut Code<'_>, node: Node<'_>, at: At) -> Option<Id> {
    let value = children(node).first().map(|value| expression(code, *value, at.below()))?;
    if let Some(target) = field(node, "alias").and_then(first) {
        assign(code, target, value, at);
    }
    Some(value)
}

fn augmented(code: &mut Code<'_>, node: Node<'_>, at: At) {
    if let (Some(left), Some(right)) = (field(node, "left"), field(node, "right")) {
        let (left, right) = (expression(code, left, at.below()), expression(code, right, at.below()));
        let args = vec![Arg { name: None, spread: Spread::No, value: right }];
        code.changed(left, at.scope, node.start_byte(), Change::Updated(args));
    }
}

fn each(code: &mut Code<'_>, node: Node<'_>, at: At) -> Vec<Id> {
    children(node).into_iter().map(|child| expression(code, child, at)).collect()
}

fn assignment(code: &mut Code<'_>, node: Node<'_>, at: At) -> Id {
    let Some(right) = field(node, "right") else { return push(code, node, at, Kind::Other) };
    let value = expression(code, right, at.below());
    if let Some(left) = field(node, "left") {
        assign(code, left, value, at);
    }
    value
}

fn comprehension<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> Kind<'a> {
    let scope = code.open_scope(at.scope, ScopeKind::Block);
    let inside = at.inside(scope);
    let (mut over, mut picks) = (Vec::new(), false);
    for child in children(node) {
        match child.kind() {
            "for_in_clause" => {
                if let Some(right) = field(child, "right") {
                    let value = expression(code, right, inside);
                    over.push(value);
                    if let Some(left) = field(child, "left") {
                        elements(code, left, value, inside);
                    }
                }
            }
            "if_clause" => {
                picks = true;
                each(code, child, inside);
            }
            _ => {}
        }
    }
    let body = field(node, "body");
    let element = body.map(|body| match body.kind() {
        "pair" => {
            if let Some(key) = field(body, "key") {
                expression(code, key, inside);
            }
            field(body, "value").map_or(0, |value| expression(code, value, inside))
        }
        _ => expression(code, body, inside),
    });
    Kind::Each { over, picks, element }
}

fn string<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> Kind<'a> {
    let parts = if node.kind() == "string" { vec![node] } else { children(node) };
    let mut literal: Option<Cow<'a, str>> = Some(Cow::Borrowed(""));
    let mut inserted = Vec::new();
    for part in parts {
        let mut cursor = part.walk();
        let inner: Vec<Node<'_>> = part.named_children(&mut cursor).collect();
        for inner in inner {
            match inner.kind() {
                "string_content" => {
                    let content = text(code, inner);
                    literal = match literal {
                        Some(Cow::Borrowed("")) => Some(Cow::Borrowed(content)),
                        Some(known) => Some(Cow::Owned(format!("{known}{content}"))),
                        None => None,
                    };
                }
                "interpolation" => {
                    literal = None;
                    inserted.extend(each(code, inner, at.below()));
                }
                _ => {}
            }
        }
    }
    Kind::Text(literal, inserted)
}

fn call<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> Id {
    let below = at.below();
    let Some(func) = field(node, "function") else { return push(code, node, at, Kind::Other) };
    let func = expression(code, func, below);
    let mut args = Vec::new();
    if let Some(list) = field(node, "arguments") {
        if list.kind() == "generator_expression" {
            args.push(Arg { name: None, spread: Spread::No, value: expression(code, list, below) });
        } else {
            for child in children(list) {
                args.push(argument(code, child, below));
            }
        }
    }
    if let Kind::Attr(of, method) = code.expr(func).kind {
        let change = match method {
            "pop" | "popitem" => Some(Change::Removed),
            "clear" => Some(Change::Cleared),
            "update" => Some(Change::Updated(args.clone())),
            "setdefault" | "__setitem__" => args.get(1).map(|value| Change::Set {
                key: code.literal(args[0].value).map(|key| Cow::Owned(key.to_owned())),
                value: value.value,
            }),
            _ => None,
        };
        if let Some(change) = change {
            code.changed(of, at.scope, node.start_byte(), change);
        }
    }
    let kind = loaded(code, func, &args).unwrap_or(Kind::Call { func, args, tagged: false });
    let id = push(code, node, at, kind);
    code.calls.push(id);
    id
}

fn argument<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> Arg<'a> {
    match node.kind() {
        "keyword_argument" => {
            let name = field(node, "name").map(|name| text(code, name));
            let value = match field(node, "value") {
                Some(value) => expression(code, value, at),
                None => push(code, node, at, Kind::Other),
            };
            Arg { name, spread: Spread::No, value }
        }
        "dictionary_splat" => Arg { name: None, spread: Spread::Map, value: expression(code, node, at) },
        "list_splat" => Arg { name: None, spread: Spread::List, value: expression(code, node, at) },
        _ => Arg { name: None, spread: Spread::No, value: expression(code, node, at) },
    }
}

/// `__import__("x")`, `importlib.import_module("x")`, and `getattr(x, "y")`.
fn loaded<'a>(code: &Code<'a>, func: Id, args: &[Arg<'a>]) -> Option<Kind<'a>> {
    let text = |index: usize| args.get(index).and_then(|arg| code.literal(arg.value)).map(str::to_owned);
    match code.dotted(func)?.as_str() {
        "__import__"
        | "importlib.import_module"
        | "import_module"
        | "importorskip"
        | "pytest.importorskip" => Some(Kind::Module(text(0)?.into())),
        "getattr" => {
            text(1)?;
            let Kind::Text(Some(Cow::Borrowed(name)), _) = code.expr(args[1].value).kind else { return None };
            Some(Kind::Attr(args[0].value, name))
        }
        _ => None,
    }
}
