//! JavaScript and TypeScript. `this` is called `self`, so that classes are judged as Python's are. Types start nothing.

use super::{At, children, field, has_token, push, text};
use crate::code::{
    Arg, Bound, Change, Class, Code, Entry, FnId, Function, Id, Kind, Language, MAX_DEPTH, Param, ParamKind,
    ScopeKind, Spread,
};
use std::borrow::Cow;
use std::collections::HashMap;
use tree_sitter::Node;

pub fn lower<'a>(source: &'a str, root: Node<'_>) -> Code<'a> {
    let mut code = Code::new(source, Language::JavaScript);
    each(&mut code, root, At::TOP);
    code
}

fn each(code: &mut Code<'_>, node: Node<'_>, at: At) -> Vec<Id> {
    children(node).into_iter().map(|child| expression(code, child, at)).collect()
}

/// The content of a string, without escapes that matter to nothing here.
fn literal<'a>(code: &Code<'a>, node: Node<'_>) -> Cow<'a, str> {
    let whole = text(code, node);
    let inner = whole.get(1..whole.len().saturating_sub(1)).unwrap_or("");
    if inner.contains('\\') { Cow::Owned(inner.replace("\\/", "/")) } else { Cow::Borrowed(inner) }
}

fn key<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> Cow<'a, str> {
    match node.kind() {
        "string" => literal(code, node),
        "computed_property_name" => {
            let parts = each(code, node, at);
            let known = parts.first().and_then(|part| code.literal(*part)).unwrap_or("");
            Cow::Owned(known.to_owned())
        }
        _ => Cow::Borrowed(text(code, node)),
    }
}

fn is_type_only(node: Node<'_>) -> bool {
    has_token(node, "type") || has_token(node, "typeof")
}

fn expression<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> Id {
    if at.depth > MAX_DEPTH {
        return push(code, node, at, Kind::Other);
    }
    let below = at.below();
    let kind = match node.kind() {
        "identifier" | "shorthand_property_identifier" => Kind::Name(text(code, node)),
        "this" => Kind::Name("self"),
        "undefined" | "null" => Kind::Nothing,
        "true" => Kind::Bool(true),
        "false" => Kind::Bool(false),
        "string" => Kind::Text(Some(literal(code, node)), Vec::new()),
        "template_string" => template(code, node, below),
        "member_expression" => match (field(node, "object"), field(node, "property")) {
            (Some(of), Some(name)) => {
                let of = expression(code, of, below);
                Kind::Attr(of, text(code, name))
            }
            _ => Kind::Other,
        },
        "subscript_expression" => match (field(node, "object"), field(node, "index")) {
            (Some(of), Some(index)) => {
                let (of, index) = (expression(code, of, below), expression(code, index, below));
                match code.expr(index).kind {
                    Kind::Text(Some(Cow::Borrowed(name)), _) => Kind::Attr(of, name),
                    _ => Kind::Index(of, index),
                }
            }
            _ => Kind::Other,
        },
        "call_expression" | "new_expression" => return call(code, node, at),
        "object" => Kind::Map(object(code, node, at)),
        "array" => Kind::List(each(code, node, below)),
        "ternary_expression" => ternary(code, node, below),
        "binary_expression" => binary(code, node, below),
        "parenthesized_expression"
        | "await_expression"
        | "non_null_expression"
        | "spread_element"
        | "sequence_expression" => match each(code, node, below).last() {
            Some(last) => return *last,
            None => Kind::Other,
        },
        "as_expression" | "satisfies_expression" => match children(node).first() {
            Some(inner) => return expression(code, *inner, below),
            None => Kind::Other,
        },
        "type_assertion" => match children(node).last() {
            Some(inner) => return expression(code, *inner, below),
            None => Kind::Other,
        },
        "assignment_expression" => {
            let value = field(node, "right").map(|right| expression(code, right, below));
            match (field(node, "left"), value) {
                (Some(left), Some(value)) => {
                    assign(code, left, value, at);
                    return value;
                }
                _ => Kind::Other,
            }
        }
        "variable_declarator" => {
            if let (Some(name), Some(value)) = (field(node, "name"), field(node, "value")) {
                let value = expression(code, value, below);
                assign(code, name, value, at);
            }
            Kind::Other
        }
        "unary_expression" => unary(code, node, at),
        "function_declaration"
        | "function_expression"
        | "arrow_function"
        | "generator_function"
        | "generator_function_declaration"
        | "method_definition"
        | "function" => {
            let id = function(code, node, at);
            Kind::Func(id)
        }
        "class_declaration" | "class" | "abstract_class_declaration" => Kind::Class(class(code, node, at)),
        "import_statement" => {
            import(code, node, at);
            Kind::Other
        }
        "export_statement" => {
            export(code, node, at);
            Kind::Other
        }
        "return_statement" => {
            let value = each(code, node, below).last().copied();
            if let (Some(value), Some(function)) = (value, code.scopes[at.scope].function) {
                code.functions[function].returns.push(value);
            }
            Kind::Other
        }
        "if_statement" | "else_clause" | "switch_statement" | "try_statement" | "while_statement"
        | "do_statement" | "for_statement" | "switch_case" | "switch_default" | "catch_clause"
        | "finally_clause" => {
            each(code, node, at.branch());
            Kind::Other
        }
        "for_in_statement" => {
            for_in(code, node, at);
            Kind::Other
        }
        "type_alias_declaration"
        | "interface_declaration"
        | "type_annotation"
        | "type_arguments"
        | "type_parameters"
        | "comment"
        | "import_alias" => Kind::Other,
        _ => {
            each(code, node, below);
            Kind::Other
        }
    };
    push(code, node, at, kind)
}

fn ternary<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> Kind<'a> {
    if let Some(condition) = field(node, "condition") {
        expression(code, condition, at);
    }
    let parts = ["consequence", "alternative"].iter().filter_map(|part| field(node, part));
    let parts: Vec<Node<'_>> = parts.collect();
    Kind::Either(parts.into_iter().map(|part| expression(code, part, at)).collect())
}

fn binary<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> Kind<'a> {
    let parts = each(code, node, at);
    match () {
        () if has_token(node, "||") || has_token(node, "??") => Kind::Either(parts),
        () if has_token(node, "&&") => Kind::Either(parts[parts.len().min(1)..].to_vec()),
        () if has_token(node, "+") => Kind::Joined(parts),
        () => Kind::Other,
    }
}

fn unary<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> Kind<'a> {
    let argument = field(node, "argument").map(|argument| expression(code, argument, at.below()));
    if has_token(node, "delete")
        && let Some(argument) = argument
        && let Kind::Attr(of, _) | Kind::Index(of, _) = code.expr(argument).kind
    {
        code.changed(of, at.scope, node.start_byte(), Change::Removed);
    }
    if has_token(node, "void") { Kind::Nothing } else { Kind::Other }
}

/// `for (const x of y)`: the name is an element of it.
fn for_in(code: &mut Code<'_>, node: Node<'_>, at: At) {
    let over = field(node, "right").map(|right| expression(code, right, at.below()));
    if let (Some(left), Some(over)) = (field(node, "left"), over)
        && left.kind() == "identifier"
    {
        let name = text(code, left);
        let bound = Bound::Part { whole: over, key: "*".into() };
        code.bind(at.scope, name, bound, left.start_byte(), true);
    }
    if let Some(body) = field(node, "body") {
        expression(code, body, at.branch());
    }
}

fn template<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> Kind<'a> {
    let inserted: Vec<Node<'_>> =
        children(node).into_iter().filter(|child| child.kind() == "template_substitution").collect();
    if inserted.is_empty() {
        return Kind::Text(Some(literal(code, node)), Vec::new());
    }
    let mut parts = Vec::new();
    for part in inserted {
        parts.extend(each(code, part, at));
    }
    Kind::Text(None, parts)
}

fn object<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> Vec<Entry<'a>> {
    let below = at.below();
    let mut entries = Vec::new();
    for child in children(node) {
        match child.kind() {
            "pair" => {
                let key = field(child, "key").map(|name| key(code, name, below));
                let Some(value) = field(child, "value") else { continue };
                let value = expression(code, value, below);
                entries.push(Entry { key: Some(key.unwrap_or_default()), value });
            }
            "shorthand_property_identifier" => {
                let value = expression(code, child, below);
                entries.push(Entry { key: Some(text(code, child).into()), value });
            }
            "method_definition" => {
                let name = field(child, "name").map(|name| Cow::Borrowed(text(code, name)));
                let value = expression(code, child, below);
                entries.push(Entry { key: Some(name.unwrap_or_default()), value });
            }
            _ => {
                let value = expression(code, child, below);
                entries.push(Entry { key: None, value });
            }
        }
    }
    entries
}

fn call<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> Id {
    let below = at.below();
    let callee = field(node, "function").or_else(|| field(node, "constructor"));
    let Some(callee) = callee else { return push(code, node, at, Kind::Other) };
    let is_import = callee.kind() == "import";
    let func = expression(code, callee, below);
    let (mut args, mut tagged) = (Vec::new(), false);
    match field(node, "arguments") {
        Some(list) if list.kind() == "template_string" => {
            tagged = true;
            args.push(Arg { name: None, spread: Spread::No, value: expression(code, list, below) });
        }
        Some(list) => {
            for child in children(list) {
                let spread = if child.kind() == "spread_element" { Spread::List } else { Spread::No };
                args.push(Arg { name: None, spread, value: expression(code, child, below) });
            }
        }
        None => {}
    }
    if let Some(module) = args.first().and_then(|arg| code.literal(arg.value)) {
        // Whatever is given nothing but this name loads it, by whatever name a bundler calls it.
        let is_named = matches!(module, "child_process" | "node:child_process") && args.len() == 1;
        if is_import || is_named || is_loader(code, func) {
            let module = module.to_owned();
            return push(code, node, at, Kind::Module(module.into()));
        }
    }
    match code.dotted(func).as_deref() {
        Some("Object.assign") if !args.is_empty() => {
            code.changed(args[0].value, at.scope, node.start_byte(), Change::Updated(args[1..].to_vec()));
        }
        Some("Reflect.deleteProperty") if !args.is_empty() => {
            code.changed(args[0].value, at.scope, node.start_byte(), Change::Removed);
        }
        _ => {}
    }
    let id = push(code, node, at, Kind::Call { func, args, tagged });
    code.calls.push(id);
    id
}

/// Whether a function loads a module by its name: `require`, and what bundlers and lazy loaders call it.
fn is_loader(code: &Code<'_>, func: Id) -> bool {
    let (Kind::Name(name) | Kind::Attr(_, name)) = code.expr(func).kind else { return false };
    name == "getBuiltinModule" || name.to_ascii_lowercase().contains("require")
}

fn function<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> FnId {
    let name = field(node, "name").map_or("", |name| text(code, name));
    let class = match code.scopes[at.scope].kind {
        ScopeKind::Class => code.scopes[at.scope].class,
        _ => None,
    };
    let scope = code.open_scope(at.scope, ScopeKind::Function);
    let id = code.functions.len();
    let decorators = Vec::new();
    code.functions.push(Function { name, params: Vec::new(), returns: Vec::new(), scope, class, decorators });
    code.scopes[scope].function = Some(id);
    if let (Some(class), true) = (class, node.kind() == "method_definition") {
        code.classes[class].methods.insert(name, id);
    } else if !name.is_empty() && node.kind() != "method_definition" {
        code.bind(at.scope, name, Bound::Func(id), node.start_byte(), false);
    }
    let inside = at.inside(scope);
    if let Some(one) = field(node, "parameter") {
        parameter(code, one, id, inside);
    }
    for param in field(node, "parameters").map(children).unwrap_or_default() {
        parameter(code, param, id, inside);
    }
    if let Some(body) = field(node, "body") {
        let value = expression(code, body, inside);
        if body.kind() != "statement_block" {
            code.functions[id].returns.push(value);
        }
    }
    id
}

fn parameter<'a>(code: &mut Code<'a>, node: Node<'_>, function: FnId, at: At) {
    let (pattern, default) = match node.kind() {
        "required_parameter" | "optional_parameter" => (field(node, "pattern"), field(node, "value")),
        "assignment_pattern" => (field(node, "left"), field(node, "right")),
        _ => (Some(node), None),
    };
    let Some(pattern) = pattern else { return };
    let default = default.map(|default| expression(code, default, at));
    let index = code.functions[function].params.len();
    let (name, kind) = match pattern.kind() {
        "identifier" => (text(code, pattern), ParamKind::Plain),
        "rest_pattern" => (children(pattern).first().map_or("", |name| text(code, *name)), ParamKind::Rest),
        _ => ("", ParamKind::Plain),
    };
    let of_type = field(node, "type").map(|of_type| text(code, of_type));
    code.functions[function].params.push(Param { name, default, kind, of_type });
    if !name.is_empty() {
        code.bind(at.scope, name, Bound::Param { function, index }, pattern.start_byte(), false);
    }
    if pattern.kind() == "object_pattern" {
        for (name, _, default) in parts(code, pattern, at) {
            if let Some(default) = default {
                code.bind(at.scope, name, Bound::Value(default), pattern.start_byte(), true);
            }
            let bound = Bound::ParamPart { function, index };
            code.bind(at.scope, name, bound, pattern.start_byte(), true);
        }
    }
}

/// The names that an object pattern binds, the keys they come from, and what they are if there is no such key.
fn parts<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> Vec<(&'a str, Cow<'a, str>, Option<Id>)> {
    let mut found = Vec::new();
    for child in children(node) {
        match child.kind() {
            "shorthand_property_identifier_pattern" => {
                let name = text(code, child);
                found.push((name, name.into(), None));
            }
            "object_assignment_pattern" => {
                if let (Some(left), Some(right)) = (field(child, "left"), field(child, "right")) {
                    let name = text(code, left);
                    let default = expression(code, right, at);
                    found.push((name, name.into(), Some(default)));
                }
            }
            "pair_pattern" => {
                let Some(from) = field(child, "key").map(|from| key(code, from, at)) else { continue };
                match field(child, "value") {
                    Some(value) if value.kind() == "identifier" => {
                        found.push((text(code, value), from, None))
                    }
                    Some(value) if value.kind() == "assignment_pattern" => {
                        if let (Some(left), Some(right)) = (field(value, "left"), field(value, "right")) {
                            let default = expression(code, right, at);
                            found.push((text(code, left), from, Some(default)));
                        }
                    }
                    Some(value) if value.kind() == "object_pattern" => {
                        for (name, inner, default) in parts(code, value, at.below()) {
                            found.push((name, format!("{from}.{inner}").into(), default));
                        }
                    }
                    _ => {}
                }
            }
            "rest_pattern" => {
                if let Some(name) = children(child).first() {
                    found.push((text(code, *name), "".into(), None));
                }
            }
            _ => {}
        }
    }
    found
}

fn assign<'a>(code: &mut Code<'a>, left: Node<'_>, value: Id, at: At) {
    match left.kind() {
        "identifier" => {
            let name = text(code, left);
            code.bind(at.scope, name, Bound::Value(value), left.start_byte(), at.branch);
        }
        "object_pattern" => {
            for (name, key, default) in parts(code, left, at.below()) {
                if let Some(default) = default {
                    code.bind(at.scope, name, Bound::Value(default), left.start_byte(), true);
                }
                // The rest of an object: something was taken out of it.
                let bound = if key.is_empty() {
                    Bound::Part { whole: value, key: "...".into() }
                } else {
                    Bound::Part { whole: value, key }
                };
                code.bind(at.scope, name, bound, left.start_byte(), default.is_some() || at.branch);
            }
        }
        "array_pattern" => {
            for (index, part) in children(left).into_iter().enumerate() {
                if part.kind() == "identifier" {
                    let name = text(code, part);
                    let bound = Bound::Part { whole: value, key: index.to_string().into() };
                    code.bind(at.scope, name, bound, part.start_byte(), at.branch);
                }
            }
        }
        "member_expression" | "subscript_expression" => {
            let target = expression(code, left, at.below());
            match code.expr(target).kind {
                Kind::Attr(of, name) => {
                    if matches!(code.expr(of).kind, Kind::Name("self"))
                        && let Some(class) = code.scopes[at.scope].class
                    {
                        code.classes[class].fields.entry(name).or_default().push(value);
                    }
                    match code.dotted(target).as_deref() {
                        Some("module.exports") => exported_object(code, value),
                        Some(path) if path.starts_with("exports.") || path.starts_with("module.exports.") => {
                            code.exports.push((name.into(), Bound::Value(value)));
                        }
                        _ => {}
                    }
                    let nothing = matches!(code.expr(value).kind, Kind::Nothing);
                    let change =
                        if nothing { Change::Removed } else { Change::Set { key: Some(name.into()), value } };
                    code.changed(of, at.scope, left.start_byte(), change);
                }
                Kind::Index(of, _) => {
                    code.changed(of, at.scope, left.start_byte(), Change::Set { key: None, value });
                }
                _ => {}
            }
        }
        _ => {}
    }
}

fn exported_object<'a>(code: &mut Code<'a>, value: Id) {
    code.exports.push(("default".into(), Bound::Value(value)));
    if let Kind::Map(entries) = code.expr(value).kind.clone() {
        for entry in entries {
            match entry.key {
                Some(key) => code.exports.push((key, Bound::Value(entry.value))),
                None => {
                    if let Kind::Module(module) = code.expr(entry.value).kind.clone() {
                        code.stars.push(module);
                    }
                }
            }
        }
    }
}

fn class<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> usize {
    let name = field(node, "name").map_or("", |name| text(code, name));
    let mut bases = Vec::new();
    for child in children(node) {
        if child.kind() == "class_heritage" {
            for inner in children(child) {
                let inner =
                    if inner.kind() == "extends_clause" { field(inner, "value") } else { Some(inner) };
                if let Some(inner) = inner.filter(|inner| inner.kind() != "implements_clause") {
                    bases.push(expression(code, inner, at.below()));
                }
            }
        }
    }
    let scope = code.open_scope(at.scope, ScopeKind::Class);
    let id = code.classes.len();
    code.classes.push(Class { name, bases, methods: HashMap::new(), fields: HashMap::new() });
    code.scopes[scope].class = Some(id);
    if !name.is_empty() {
        code.bind(at.scope, name, Bound::Class(id), node.start_byte(), false);
    }
    for member in field(node, "body").map(children).unwrap_or_default() {
        match member.kind() {
            "field_definition" | "public_field_definition" => {
                let named = field(member, "property").or_else(|| field(member, "name"));
                if let (Some(named), Some(value)) = (named, field(member, "value")) {
                    let name = text(code, named);
                    let value = expression(code, value, at.inside(scope));
                    code.classes[id].fields.entry(name).or_default().push(value);
                }
            }
            _ => {
                expression(code, member, at.inside(scope));
            }
        }
    }
    id
}

fn import<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) {
    let (first, _) = code.imports.unwrap_or((node.start_byte(), 0));
    code.imports = Some((first, node.end_byte()));
    if is_type_only(node) {
        return;
    }
    let clause = children(node);
    let require = clause.iter().find(|child| child.kind() == "import_require_clause").copied();
    let Some(source) = field(node, "source").or_else(|| require.and_then(|require| field(require, "source")))
    else {
        return;
    };
    let module = literal(code, source);
    let at_byte = node.start_byte();
    if let Some(require) = require
        && let Some(name) = children(require).first()
    {
        let name = text(code, *name);
        code.bind(at.scope, name, Bound::Import { module, name: None }, at_byte, false);
        return;
    }
    for child in
        clause.iter().filter(|child| child.kind() == "import_clause").flat_map(|clause| children(*clause))
    {
        match child.kind() {
            "identifier" => {
                let name = text(code, child);
                let bound = Bound::Import { module: module.clone(), name: Some("default".into()) };
                code.bind(at.scope, name, bound, at_byte, false);
            }
            "namespace_import" => {
                if let Some(name) = children(child).first() {
                    let name = text(code, *name);
                    let bound = Bound::Import { module: module.clone(), name: None };
                    code.bind(at.scope, name, bound, at_byte, false);
                }
            }
            "named_imports" => {
                for specifier in children(child) {
                    if is_type_only(specifier) {
                        continue;
                    }
                    let Some(name) = field(specifier, "name") else { continue };
                    let alias = field(specifier, "alias").unwrap_or(name);
                    let (name, alias) = (text(code, name).trim_matches(['"', '\'']), text(code, alias));
                    let bound = Bound::Import { module: module.clone(), name: Some(name.into()) };
                    code.bind(at.scope, alias, bound, at_byte, false);
                }
            }
            _ => {}
        }
    }
}

fn export<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) {
    if is_type_only(node) {
        return;
    }
    let module = field(node, "source").map(|source| literal(code, source));
    if let (Some(module), true) = (&module, has_token(node, "*")) {
        code.stars.push(module.clone());
    }
    for child in children(node) {
        match (child.kind(), &module) {
            ("export_clause", _) => {
                for specifier in children(child) {
                    let Some(name) = field(specifier, "name") else { continue };
                    let alias = field(specifier, "alias").unwrap_or(name);
                    let id = push(code, name, at, Kind::Name(text(code, name)));
                    let (name, alias) = (text(code, name), text(code, alias));
                    let bound = match &module {
                        Some(module) => Bound::Import { module: module.clone(), name: Some(name.into()) },
                        None => Bound::Value(id),
                    };
                    code.exports.push((alias.into(), bound));
                }
            }
            ("namespace_export", Some(module)) => {
                if let Some(name) = children(child).first() {
                    let bound = Bound::Import { module: module.clone(), name: None };
                    code.exports.push((text(code, *name).into(), bound));
                }
            }
            ("string", Some(_)) => {}
            _ => {
                let value = expression(code, child, at.below());
                if has_token(node, "default") {
                    code.exports.push(("default".into(), Bound::Value(value)));
                }
            }
        }
    }
}
