//! Reads expressions: names, calls, literals. Everything between them is skipped, so that no construct of the language has to be known.

use super::tokens::{Part, Placed, Token, tokens};
use crate::verdict::{Language, Span};

#[derive(Clone, Debug)]
pub enum Expr {
    Text(Vec<Piece>),
    Number(String),
    Name(String),
    List(Vec<Expr>),
    Table(Vec<(Option<String>, Expr)>),
    Member(Box<Expr>, String),
    Index(Box<Expr>, Box<Expr>),
    Call {
        callee: Box<Expr>,
        args: Vec<(Option<String>, Expr)>,
        span: Span,
    },
    Both(&'static str, Box<Expr>, Box<Expr>),
    /// Several of which one is the value.
    Any(Vec<Expr>),
    Unknown,
}

#[derive(Clone, Debug)]
pub enum Piece {
    Text(Vec<u8>),
    Code(Expr),
}

/// What a script does, in the order in which it is written.
#[derive(Clone, Debug)]
pub enum Statement {
    Do(Expr),
    Assign(Expr, Expr),
    /// A name stands for something of a module: local name, dotted name.
    Import(String, String),
    ImportAll(String),
    /// These names are parameters or counters.
    Unknown(Vec<String>),
    /// A loop without end begins.
    Forever,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    Syntax(usize),
    TooDeep,
}

pub fn parse(source: &[u8], language: Language, depth: usize) -> Result<Vec<Statement>, Trouble> {
    let tokens = tokens(source, language).map_err(Trouble::Syntax)?;
    let mut parser = Parser {
        source,
        tokens: &tokens,
        at: 0,
        python: language == Language::Python,
        depth,
        offset: 0,
        found: Vec::new(),
    };
    parser.program()?;
    Ok(parser.found)
}

/// Longer chains of operators or members nest too deeply.
const LONGEST_CHAIN: usize = 200;

struct Parser<'a> {
    source: &'a [u8],
    tokens: &'a [Placed],
    at: usize,
    python: bool,
    depth: usize,
    /// Where the text stands in the whole.
    offset: usize,
    found: Vec<Statement>,
}

const SKIPPED: &[&str] = &[
    "if",
    "elif",
    "else",
    "while",
    "return",
    "try",
    "except",
    "finally",
    "raise",
    "not",
    "and",
    "or",
    "is",
    "yield",
    "await",
    "async",
    "pass",
    "break",
    "continue",
    "global",
    "nonlocal",
    "del",
    "assert",
    "with",
    "const",
    "let",
    "var",
    "do",
    "switch",
    "case",
    "new",
    "typeof",
    "instanceof",
    "void",
    "throw",
    "catch",
    "export",
    "default",
    "static",
    "in",
    "of",
    "match",
    "delete",
    "extends",
    "lambda",
];

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, ..)| token)
    }

    fn sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Sign(here)) if *here == sign)
    }

    fn take(&mut self, sign: &str) -> bool {
        let there = self.sign(sign);
        self.at += usize::from(there);
        there
    }

    fn word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Name(name)) if name == word)
    }

    fn take_word(&mut self, word: &str) -> bool {
        let there = self.word(word);
        self.at += usize::from(there);
        there
    }

    fn name(&mut self) -> Option<String> {
        match self.peek() {
            Some(Token::Name(name)) => {
                let name = name.clone();
                self.at += 1;
                Some(name)
            }
            _ => None,
        }
    }

    fn gaps(&mut self) {
        while matches!(self.peek(), Some(Token::Newline)) {
            self.at += 1;
        }
    }

    fn span_from(&self, token: usize) -> Span {
        let start = self.tokens.get(token).map_or(0, |(_, start, _)| *start);
        let end = self.tokens.get(self.at.saturating_sub(1)).map_or(start, |(_, _, end)| *end);
        Span::new(self.offset + start, self.offset + end)
    }

    fn program(&mut self) -> Result<(), Trouble> {
        while self.at < self.tokens.len() {
            let before = self.at;
            self.statement()?;
            if self.at == before {
                self.at += 1;
            }
        }
        Ok(())
    }

    fn statement(&mut self) -> Result<(), Trouble> {
        let start = self.at;
        if self.word("import") {
            self.at += 1;
            return if self.python { self.python_import() } else { self.js_import(start) };
        }
        if self.python && self.take_word("from") {
            return self.python_from();
        }
        if self.word("def") || self.word("function") || self.word("class") {
            self.at += 1;
            self.take("*");
            // Its name is no call.
            let _ = self.name();
            if self.take("(") {
                self.parameters();
            }
            return Ok(());
        }
        if self.word("for") {
            self.at += 1;
            return self.each();
        }
        if self.word("while") {
            self.at += 1;
            self.take("(");
            let forever = match self.peek() {
                Some(Token::Name(name)) => matches!(name.as_str(), "True" | "true"),
                Some(Token::Number(number)) => number == "1",
                _ => false,
            };
            if forever {
                self.at += 1;
                self.found.push(Statement::Forever);
            }
            return Ok(());
        }
        if let Some(Token::Name(name)) = self.peek()
            && SKIPPED.contains(&name.as_str())
        {
            self.at += 1;
            return Ok(());
        }
        let target = self.expression()?;
        self.after_expression(target)
    }

    /// An assignment, or an expression for itself.
    fn after_expression(&mut self, target: Expr) -> Result<(), Trouble> {
        if self.python && self.take_word("as") {
            if let Some(name) = self.name() {
                self.found.push(Statement::Assign(Expr::Name(name), target));
            }
            return Ok(());
        }
        // A type stands between name and value.
        if self.python && self.sign(":") && matches!(target, Expr::Name(_)) {
            let back = self.at;
            self.at += 1;
            let _ = self.expression()?;
            if !self.sign("=") {
                self.at = back;
            }
        }
        if self.take("=") || self.take(":=") {
            self.gaps_in_js();
            let value = self.expression()?;
            // `a = b = value`
            if self.sign("=") {
                self.depth = self.depth.checked_sub(1).ok_or(Trouble::TooDeep)?;
                self.after_expression(value.clone())?;
                self.depth += 1;
            }
            self.found.push(Statement::Assign(target, value));
            return Ok(());
        }
        if self.take("+=") {
            let value = self.expression()?;
            let sum = Expr::Both("+", Box::new(target.clone()), Box::new(value));
            self.found.push(Statement::Assign(target, sum));
            return Ok(());
        }
        self.found.push(Statement::Do(target));
        Ok(())
    }

    fn gaps_in_js(&mut self) {
        if !self.python {
            self.gaps();
        }
    }

    fn dotted(&mut self) -> Option<String> {
        let mut name = self.name()?;
        while self.sign(".") {
            self.at += 1;
            name.push('.');
            name.push_str(&self.name()?);
        }
        Some(name)
    }

    fn python_import(&mut self) -> Result<(), Trouble> {
        while let Some(module) = self.dotted() {
            if self.take_word("as") {
                if let Some(name) = self.name() {
                    self.found.push(Statement::Import(name, module));
                }
            } else {
                let first = module.split('.').next().unwrap_or_default().to_owned();
                self.found.push(Statement::Import(first.clone(), first));
            }
            if !self.take(",") {
                break;
            }
        }
        Ok(())
    }

    fn python_from(&mut self) -> Result<(), Trouble> {
        while self.take(".") || self.take("...") {}
        let module = self.dotted().unwrap_or_default();
        if !self.take_word("import") {
            return Ok(());
        }
        let bracket = self.take("(");
        if self.take("*") {
            self.found.push(Statement::ImportAll(module));
            return Ok(());
        }
        loop {
            if bracket {
                self.gaps();
            }
            let Some(name) = self.name() else { return Ok(()) };
            let local = if self.take_word("as") { self.name().unwrap_or_default() } else { name.clone() };
            self.found.push(Statement::Import(local, format!("{module}.{name}")));
            if bracket {
                self.gaps();
            }
            if !self.take(",") {
                return Ok(());
            }
        }
    }

    fn js_import(&mut self, start: usize) -> Result<(), Trouble> {
        if self.sign("(") || self.sign(".") {
            // `import('x')` is a call.
            self.at = start;
            let call = self.expression()?;
            return self.after_expression(call);
        }
        let mut names: Vec<(String, Option<String>)> = Vec::new();
        loop {
            match self.peek() {
                Some(Token::Text(_)) => break,
                Some(Token::Name(name)) if name == "from" => self.at += 1,
                Some(Token::Sign("*")) => {
                    self.at += 1;
                    self.take_word("as");
                    names.extend(self.name().map(|name| (name, None)));
                }
                Some(Token::Sign("{")) => {
                    self.at += 1;
                    while !self.sign("}") && self.at < self.tokens.len() {
                        match self.name() {
                            Some(name) => {
                                let local = if self.take_word("as") { self.name() } else { None };
                                names.push((local.unwrap_or_else(|| name.clone()), Some(name)));
                            }
                            None => self.at += 1,
                        }
                    }
                    self.take("}");
                }
                Some(Token::Name(_)) => names.extend(self.name().map(|name| (name, None))),
                Some(Token::Sign(",") | Token::Newline) => self.at += 1,
                _ => return Ok(()),
            }
        }
        let Some(Token::Text(parts)) = self.peek() else { return Ok(()) };
        let module = match parts.as_slice() {
            [Part::Text(text)] => module_name(text),
            _ => return Ok(()),
        };
        self.at += 1;
        for (local, member) in names {
            let full = match member.as_deref() {
                None | Some("default") => module.clone(),
                Some(member) => format!("{module}.{member}"),
            };
            self.found.push(Statement::Import(local, full));
        }
        Ok(())
    }

    /// Names up to the closing parenthesis; what they are is up to the caller of the function.
    fn parameters(&mut self) {
        let mut names = Vec::new();
        let mut open = 1usize;
        while let Some(token) = self.peek() {
            match token {
                Token::Sign("(" | "[" | "{") => open += 1,
                Token::Sign(")" | "]" | "}") => {
                    open -= 1;
                    if open == 0 {
                        break;
                    }
                }
                Token::Name(name) => names.push(name.clone()),
                _ => {}
            }
            self.at += 1;
        }
        self.found.push(Statement::Unknown(names));
    }

    fn each(&mut self) -> Result<(), Trouble> {
        let back = self.at;
        let bracket = self.take("(");
        if bracket && self.sign(";") {
            self.found.push(Statement::Forever);
            return Ok(());
        }
        let mut names = Vec::new();
        for _ in 0..16 {
            match self.peek() {
                Some(Token::Name(name)) if name == "in" || name == "of" => {
                    self.at += 1;
                    self.found.push(Statement::Unknown(names));
                    return Ok(());
                }
                Some(Token::Name(name)) => {
                    if !matches!(name.as_str(), "const" | "let" | "var") {
                        names.push(name.clone());
                    }
                    self.at += 1;
                }
                Some(Token::Sign("," | "(" | ")" | "[" | "]" | "{" | "}")) => self.at += 1,
                _ => break,
            }
        }
        self.at = back;
        Ok(())
    }

    pub fn expression(&mut self) -> Result<Expr, Trouble> {
        self.depth = self.depth.checked_sub(1).ok_or(Trouble::TooDeep)?;
        let result = self.operators();
        self.depth += 1;
        result
    }

    fn operators(&mut self) -> Result<Expr, Trouble> {
        let mut left = self.operand()?;
        let mut length = 0;
        loop {
            length += 1;
            if length > LONGEST_CHAIN {
                return Err(Trouble::TooDeep);
            }
            let sign = match self.peek() {
                Some(Token::Sign(sign @ ("+" | "/" | "%"))) => *sign,
                Some(Token::Sign("||" | "??" | "&&" | "?" | "|" | "if")) => "or",
                Some(Token::Sign(
                    "-" | "*" | "**" | "//" | "<" | ">" | "==" | "===" | "!=" | "!==" | "<=" | ">=" | "&"
                    | "^" | "<<" | ">>",
                )) => "",
                Some(Token::Name(name))
                    if self.python && matches!(name.as_str(), "or" | "and" | "if" | "else") =>
                {
                    "or"
                }
                // Strings beside each other are one.
                Some(Token::Text(_)) if self.python && matches!(left, Expr::Text(_)) => "beside",
                _ => return Ok(left),
            };
            if sign != "beside" {
                self.at += 1;
                self.gaps_in_js();
            }
            let right = self.operand()?;
            left = match sign {
                "beside" => Expr::Both("+", Box::new(left), Box::new(right)),
                "or" => match left {
                    Expr::Any(mut all) => {
                        all.push(right);
                        Expr::Any(all)
                    }
                    left => Expr::Any(vec![left, right]),
                },
                sign => Expr::Both(sign, Box::new(left), Box::new(right)),
            };
            // `a ? b : c`
            if !self.python && matches!(left, Expr::Any(_)) && self.sign(":") {
                self.at += 1;
                let other = self.operand()?;
                if let Expr::Any(all) = &mut left {
                    all.push(other);
                }
            }
        }
    }

    fn operand(&mut self) -> Result<Expr, Trouble> {
        while matches!(
            self.peek(),
            Some(Token::Sign("!" | "-" | "+" | "~" | "..." | "*" | "**" | "++" | "--"))
        ) || matches!(self.peek(), Some(Token::Name(name)) if matches!(name.as_str(), "await" | "new" | "not" | "typeof" | "void" | "async" | "yield" | "delete" | "return"))
        {
            self.at += 1;
        }
        let start = self.at;
        let mut value = match self.peek() {
            Some(Token::Name(name)) if matches!(name.as_str(), "function" | "class" | "def" | "lambda") => {
                let arrow = name == "lambda";
                self.at += 1;
                if !arrow {
                    let _ = self.name();
                    if self.take("(") {
                        self.parameters();
                        self.take(")");
                    }
                }
                return Ok(Expr::Unknown);
            }
            Some(Token::Name(name)) => Expr::Name(name.clone()),
            Some(Token::Number(number)) => Expr::Number(number.clone()),
            Some(Token::Text(parts)) => {
                let parts = parts.clone();
                Expr::Text(self.pieces(&parts)?)
            }
            Some(Token::Sign("(")) => {
                self.at += 1;
                let mut items = self.items(")")?;
                self.at = self.at.saturating_sub(1);
                match (items.len(), items.pop()) {
                    (1, Some((None, only))) => only,
                    (_, last) => {
                        items.extend(last);
                        Expr::List(items.into_iter().map(|(_, item)| item).collect())
                    }
                }
            }
            Some(Token::Sign("[")) => {
                self.at += 1;
                let items = self.items("]")?;
                self.at = self.at.saturating_sub(1);
                Expr::List(items.into_iter().map(|(_, item)| item).collect())
            }
            Some(Token::Sign("{")) => {
                self.at += 1;
                let items = self.items("}")?;
                self.at = self.at.saturating_sub(1);
                Expr::Table(items)
            }
            _ => return Ok(Expr::Unknown),
        };
        self.at += 1;
        let mut length = 0;
        loop {
            length += 1;
            if length > LONGEST_CHAIN {
                return Err(Trouble::TooDeep);
            }
            // In JavaScript a chain goes on in the next line.
            let mut ahead = self.at;
            while !self.python && matches!(self.tokens.get(ahead), Some((Token::Newline, ..))) {
                ahead += 1;
            }
            match self.tokens.get(ahead).map(|(token, ..)| token) {
                Some(Token::Sign("." | "?.")) => {
                    self.at = ahead + 1;
                    match self.name() {
                        Some(member) => value = Expr::Member(Box::new(value), member),
                        None => continue,
                    }
                }
                Some(Token::Sign("(")) if ahead == self.at => {
                    self.at += 1;
                    let args = self.items(")")?;
                    value = Expr::Call { callee: Box::new(value), args, span: self.span_from(start) };
                }
                Some(Token::Sign("[")) if ahead == self.at => {
                    self.at += 1;
                    let mut items = self.items("]")?;
                    let index = if items.len() == 1 { items.pop().map(|(_, item)| item) } else { None };
                    value = Expr::Index(Box::new(value), Box::new(index.unwrap_or(Expr::Unknown)));
                }
                // $`command`
                Some(Token::Text(parts))
                    if !self.python
                        && ahead == self.at
                        && matches!(value, Expr::Name(_) | Expr::Member(..)) =>
                {
                    let parts = parts.clone();
                    let text = Expr::Text(self.pieces(&parts)?);
                    self.at += 1;
                    let span = self.span_from(start);
                    value = Expr::Call { callee: Box::new(value), args: vec![(None, text)], span };
                }
                _ => return Ok(value),
            }
        }
    }

    /// What stands between brackets, up to and with the closing one. Whatever is no list of expressions is skipped, but what it calls is found.
    fn items(&mut self, close: &str) -> Result<Vec<(Option<String>, Expr)>, Trouble> {
        let mut items: Vec<(Option<String>, Expr)> = Vec::new();
        loop {
            self.gaps();
            if self.take(close) || self.at >= self.tokens.len() {
                return Ok(items);
            }
            if self.take(",") || self.take(";") {
                continue;
            }
            let before = self.at;
            if close == "}" || close == ")" {
                // A body of a function, or a loop in brackets.
                if let Some(Token::Name(name)) = self.peek()
                    && (SKIPPED.contains(&name.as_str())
                        || matches!(name.as_str(), "for" | "function" | "import" | "def" | "class"))
                    && !matches!(self.tokens.get(self.at + 1), Some((Token::Sign(":" | "=" | "," | "}"), ..)))
                {
                    self.statement()?;
                    if self.at == before {
                        self.at += 1;
                    }
                    continue;
                }
            }
            let item = self.expression()?;
            if self.at == before {
                // Nothing that can be read: it is no value, and neither is what stands around it.
                self.at += 1;
                continue;
            }
            let key = match &item {
                Expr::Name(name) => Some(name.clone()),
                Expr::Text(pieces) => match pieces.as_slice() {
                    [Piece::Text(text)] => Some(String::from_utf8_lossy(text).into_owned()),
                    _ => None,
                },
                _ => None,
            };
            if self.sign(":") || self.sign("=") {
                let assigns = self.sign("=");
                self.at += 1;
                self.gaps();
                let value = self.expression()?;
                if assigns && !self.python {
                    self.found.push(Statement::Assign(item, value.clone()));
                }
                items.push((key, value));
            } else if self.take("=>") {
                // An arrow function: its body is read like the rest.
                if let Expr::Name(name) = &item {
                    self.found.push(Statement::Unknown(vec![name.clone()]));
                }
                items.push((None, Expr::Unknown));
            } else if close == "}" && !self.python {
                // `{ name }` is a key and its value; in a body it is an expression.
                items.push((key, item));
            } else {
                items.push((None, item));
            }
        }
    }

    fn pieces(&mut self, parts: &[Part]) -> Result<Vec<Piece>, Trouble> {
        let mut pieces = Vec::new();
        for part in parts {
            match part {
                Part::Text(text) => pieces.push(Piece::Text(text.clone())),
                Part::Code(from, to) => {
                    let depth = self.depth.checked_sub(1).ok_or(Trouble::TooDeep)?;
                    let language = if self.python { Language::Python } else { Language::JavaScript };
                    let source = &self.source[*from..*to];
                    let inner = tokens(source, language).map_err(|at| Trouble::Syntax(from + at))?;
                    let mut parser = Parser {
                        source,
                        tokens: &inner,
                        at: 0,
                        python: self.python,
                        depth,
                        offset: self.offset + from,
                        found: Vec::new(),
                    };
                    let value = parser.expression()?;
                    self.found.append(&mut parser.found);
                    pieces.push(Piece::Code(value));
                }
            }
        }
        Ok(pieces)
    }
}

/// `node:fs` is `fs`.
pub fn module_name(text: &[u8]) -> String {
    let name = String::from_utf8_lossy(text).into_owned();
    name.strip_prefix("node:").map(str::to_owned).unwrap_or(name)
}
