//! Go. A literal of a struct is a call with names, so that `exec.Cmd{Path: …}` is read as `exec.Cmd(Path=…)`.

use super::{At, children, field, has_token, push, text};
use crate::code::{
    Arg, Bound, Change, Code, Entry, FnId, Function, Id, Kind, Language, MAX_DEPTH, Param, ParamKind,
    ScopeKind, Spread,
};
use std::borrow::Cow;
use tree_sitter::Node;

pub fn lower<'a>(source: &'a str, root: Node<'_>) -> Code<'a> {
    let mut code = Code::new(source, Language::Go);
    each(&mut code, root, At::TOP);
    code
}

fn each(code: &mut Code<'_>, node: Node<'_>, at: At) -> Vec<Id> {
    children(node).into_iter().map(|child| expression(code, child, at)).collect()
}

fn literal<'a>(code: &Code<'a>, node: Node<'_>) -> &'a str {
    let whole = text(code, node);
    whole.get(1..whole.len().saturating_sub(1)).unwrap_or("")
}

fn expression<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> Id {
    if at.depth > MAX_DEPTH {
        return push(code, node, at, Kind::Other);
    }
    let below = at.below();
    let kind = match node.kind() {
        "identifier" | "package_identifier" | "type_identifier" | "field_identifier" => {
            Kind::Name(text(code, node))
        }
        "nil" => Kind::Nothing,
        "true" => Kind::Bool(true),
        "false" => Kind::Bool(false),
        "interpreted_string_literal" | "raw_string_literal" => {
            Kind::Text(Some(Cow::Borrowed(literal(code, node))), Vec::new())
        }
        "selector_expression" => match (field(node, "operand"), field(node, "field")) {
            (Some(of), Some(name)) => {
                let of = expression(code, of, below);
                Kind::Attr(of, text(code, name))
            }
            _ => Kind::Other,
        },
        "qualified_type" => match (field(node, "package"), field(node, "name")) {
            (Some(of), Some(name)) => {
                let of = expression(code, of, below);
                Kind::Attr(of, text(code, name))
            }
            _ => Kind::Other,
        },
        "call_expression" => {
            let Some(func) = field(node, "function") else { return push(code, node, at, Kind::Other) };
            let func = expression(code, func, below);
            let mut args = Vec::new();
            for child in field(node, "arguments").map(children).unwrap_or_default() {
                let spread = if child.kind() == "variadic_argument" { Spread::List } else { Spread::No };
                args.push(Arg { name: None, spread, value: expression(code, child, below) });
            }
            let id = push(code, node, at, Kind::Call { func, args, tagged: false });
            code.calls.push(id);
            return id;
        }
        "composite_literal" => return composite(code, node, at),
        "unary_expression" | "parenthesized_expression" | "variadic_argument" | "literal_element" => {
            match each(code, node, below).last() {
                Some(last) => return *last,
                None => Kind::Other,
            }
        }
        "binary_expression" => {
            let parts = each(code, node, below);
            if has_token(node, "+") { Kind::Joined(parts) } else { Kind::Other }
        }
        "expression_list" | "literal_value" => Kind::List(each(code, node, below)),
        "short_var_declaration" | "assignment_statement" => {
            if let (Some(left), Some(right)) = (field(node, "left"), field(node, "right")) {
                let values = each(code, right, below);
                assign(code, &children(left), &values, at);
            }
            Kind::Other
        }
        "var_spec" | "const_spec" => {
            let values = field(node, "value").map(|value| each(code, value, below)).unwrap_or_default();
            let mut cursor = node.walk();
            let names: Vec<Node<'_>> = node.children_by_field_name("name", &mut cursor).collect();
            assign(code, &names, &values, at);
            Kind::Other
        }
        "return_statement" => {
            let values = each(code, node, below);
            let value = values.first().map(|value| match &code.expr(*value).kind {
                Kind::List(parts) if !parts.is_empty() => parts[0],
                _ => *value,
            });
            if let (Some(value), Some(function)) = (value, code.scopes[at.scope].function) {
                code.functions[function].returns.push(value);
            }
            Kind::Other
        }
        "import_spec" => {
            if let Some(path) = field(node, "path") {
                let path = literal(code, path);
                let (path, last) = package(path);
                let name = field(node, "name").map_or(last, |name| text(code, name));
                let module = path.replace('/', ".");
                if name == "." {
                    code.stars.push(module.into());
                } else {
                    code.bind(at.scope, name, Bound::Import { module: module.into(), name: None }, 0, false);
                }
            }
            Kind::Other
        }
        "function_declaration" | "method_declaration" | "func_literal" => {
            Kind::Func(function(code, node, at))
        }
        "if_statement"
        | "for_statement"
        | "expression_switch_statement"
        | "select_statement"
        | "type_switch_statement" => {
            if node.kind() == "for_statement" {
                range(code, node, at);
            }
            each(code, node, at.branch());
            Kind::Other
        }
        "comment" => Kind::Other,
        _ => {
            each(code, node, below);
            Kind::Other
        }
    };
    push(code, node, at, kind)
}

/// The path of an import without its major version, and the name by which its package is probably known: `sh` for
/// `github.com/codeskyblue/go-sh`, `cmd` for `github.com/go-cmd/cmd/v2`.
fn package(path: &str) -> (&str, &str) {
    let is_version = |part: &str| {
        part.strip_prefix('v')
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|c| c.is_ascii_digit()))
    };
    let path = match path.rsplit_once('/') {
        Some((before, last)) if is_version(last) => before,
        _ => path,
    };
    let last = path.rsplit('/').next().unwrap_or(path);
    let last = match last.rsplit_once('.') {
        Some((before, version)) if is_version(version) => before,
        _ => last,
    };
    let last = last.strip_prefix("go-").unwrap_or(last);
    (path, last.strip_suffix("-go").unwrap_or(last))
}

/// `for _, entry := range os.Environ()`: the name is an element of it.
fn range<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) {
    let clause = children(node).into_iter().find(|child| child.kind() == "range_clause");
    let Some(clause) = clause else { return };
    if let (Some(left), Some(right)) = (field(clause, "left"), field(clause, "right")) {
        let over = expression(code, right, at.below());
        for name in children(left) {
            if name.kind() == "identifier" {
                let name = text(code, name);
                let bound = Bound::Part { whole: over, key: "*".into() };
                code.bind(at.scope, name, bound, left.start_byte(), true);
            }
        }
    }
}

fn composite<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> Id {
    let below = at.below();
    let of_type = field(node, "type");
    let body = field(node, "body").map(children).unwrap_or_default();
    let is_struct =
        of_type.is_some_and(|of_type| matches!(of_type.kind(), "qualified_type" | "type_identifier"));
    if let (Some(of_type), true) = (of_type, is_struct) {
        let func = expression(code, of_type, below);
        let mut args = Vec::new();
        for element in body {
            let parts = children(element);
            match (element.kind(), parts.as_slice()) {
                ("keyed_element", [key, value]) => {
                    let name = text(code, *key);
                    args.push(Arg {
                        name: Some(name),
                        spread: Spread::No,
                        value: expression(code, *value, below),
                    });
                }
                _ => {
                    args.push(Arg { name: None, spread: Spread::No, value: expression(code, element, below) })
                }
            }
        }
        let id = push(code, node, at, Kind::Call { func, args, tagged: true });
        code.calls.push(id);
        return id;
    }
    let is_map = of_type.is_some_and(|of_type| of_type.kind() == "map_type");
    let (mut entries, mut items) = (Vec::new(), Vec::new());
    for element in body {
        let parts = children(element);
        match (element.kind(), parts.as_slice()) {
            ("keyed_element", [key, value]) => {
                let key = text(code, *key).trim_matches(['"', '`']);
                let value = expression(code, *value, below);
                entries.push(Entry { key: Some(key.into()), value });
            }
            _ => items.push(expression(code, element, below)),
        }
    }
    let kind = if is_map { Kind::Map(entries) } else { Kind::List(items) };
    push(code, node, at, kind)
}

fn assign<'a>(code: &mut Code<'a>, left: &[Node<'_>], values: &[Id], at: At) {
    for (index, target) in left.iter().enumerate() {
        let Some(value) = values.get(index).or(values.first()).copied() else { continue };
        match target.kind() {
            "identifier" => {
                let name = text(code, *target);
                code.bind(at.scope, name, Bound::Value(value), target.start_byte(), at.branch);
            }
            "selector_expression" => {
                let target_id = expression(code, *target, at.below());
                if let Kind::Attr(of, name) = code.expr(target_id).kind {
                    let change = Change::Set { key: Some(name.into()), value };
                    code.changed(of, at.scope, target.start_byte(), change);
                }
            }
            _ => {}
        }
    }
}

fn function<'a>(code: &mut Code<'a>, node: Node<'_>, at: At) -> FnId {
    let name = field(node, "name").map_or("", |name| text(code, name));
    let scope = code.open_scope(at.scope, ScopeKind::Function);
    let id = code.functions.len();
    let decorators = Vec::new();
    code.functions.push(Function {
        name,
        params: Vec::new(),
        returns: Vec::new(),
        scope,
        class: None,
        decorators,
    });
    code.scopes[scope].function = Some(id);
    if !name.is_empty() && node.kind() == "function_declaration" {
        code.bind(at.scope, name, Bound::Func(id), node.start_byte(), false);
    }
    for param in field(node, "parameters").map(children).unwrap_or_default() {
        let of_type = field(param, "type").map(|of_type| text(code, of_type));
        let mut cursor = param.walk();
        let names: Vec<Node<'_>> = param.children_by_field_name("name", &mut cursor).collect();
        for name in names {
            let name = text(code, name);
            let index = code.functions[id].params.len();
            code.functions[id].params.push(Param { name, default: None, kind: ParamKind::Plain, of_type });
            code.bind(scope, name, Bound::Param { function: id, index }, node.start_byte(), false);
        }
    }
    if let Some(body) = field(node, "body") {
        each(code, body, at.inside(scope));
    }
    id
}
