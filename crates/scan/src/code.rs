//! What every language is lowered to: expressions, scopes, functions and classes of one file. The judge reads nothing else, so that a
//! language is a front end and a table of calls. Pure; it borrows from the text of the file.

use std::borrow::Cow;
use std::collections::HashMap;

/// An expression of [`Code::exprs`].
pub type Id = usize;
pub type ScopeId = usize;
pub type FnId = usize;
pub type ClassId = usize;

/// Nesting beyond this is not looked into: hostile files nest as deep as they like.
pub const MAX_DEPTH: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Language {
    Python,
    JavaScript,
    Rust,
    Go,
    Shell,
    Config,
}

impl Language {
    pub const fn word(self) -> &'static str {
        match self {
            Language::Python => "python",
            Language::JavaScript => "javascript",
            Language::Rust => "rust",
            Language::Go => "go",
            Language::Shell => "shell",
            Language::Config => "configuration",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    No,
    List,
    Map,
}

#[derive(Clone, Debug)]
pub struct Arg<'a> {
    pub name: Option<&'a str>,
    pub spread: Spread,
    pub value: Id,
}

/// One entry of a map; without a key it is the entries of another map.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    pub key: Option<Cow<'a, str>>,
    pub value: Id,
}

#[derive(Clone, Debug)]
pub enum Kind<'a> {
    Name(&'a str),
    Attr(Id, &'a str),
    Index(Id, Id),
    Call {
        func: Id,
        args: Vec<Arg<'a>>,
        /// A template with a tag, such as zx's.
        tagged: bool,
    },
    /// A text. `None` where the value is not known, because it is put together from other values.
    Text(Option<Cow<'a, str>>, Vec<Id>),
    Map(Vec<Entry<'a>>),
    List(Vec<Id>),
    /// One of these: conditionals, `or`, `??`.
    Either(Vec<Id>),
    /// All of these put together: `+`, `|`.
    Joined(Vec<Id>),
    /// A comprehension or loop over something, and whether it leaves elements out.
    Each {
        over: Vec<Id>,
        picks: bool,
        element: Option<Id>,
    },
    Func(FnId),
    Class(ClassId),
    Nothing,
    Bool(bool),
    /// A module that is loaded by its name.
    Module(Cow<'a, str>),
    Other,
}

#[derive(Clone, Debug)]
pub struct Expr<'a> {
    pub kind: Kind<'a>,
    pub start: usize,
    pub end: usize,
    pub row: usize,
    pub column: usize,
    pub scope: ScopeId,
}

#[derive(Clone, Debug)]
pub enum Bound<'a> {
    Value(Id),
    /// `import module` or `from module import name`. Relative modules begin with a dot.
    Import {
        module: Cow<'a, str>,
        name: Option<Cow<'a, str>>,
    },
    Param {
        function: FnId,
        index: usize,
    },
    /// A part of a value: destructuring.
    Part {
        whole: Id,
        key: Cow<'a, str>,
    },
    /// A part of a parameter.
    ParamPart {
        function: FnId,
        index: usize,
    },
    Func(FnId),
    Class(ClassId),
}

#[derive(Clone, Debug)]
pub struct Binding<'a> {
    pub bound: Bound<'a>,
    pub at: usize,
    /// Whether it stands in a branch, so that earlier ones still count.
    pub branch: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeKind {
    Module,
    Function,
    Class,
    Block,
}

#[derive(Clone, Debug)]
pub struct Scope<'a> {
    pub parent: Option<ScopeId>,
    pub kind: ScopeKind,
    pub names: HashMap<&'a str, Vec<Binding<'a>>>,
    pub function: Option<FnId>,
    pub class: Option<ClassId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    Plain,
    Rest,
    KeywordRest,
}

#[derive(Clone, Debug)]
pub struct Param<'a> {
    pub name: &'a str,
    pub default: Option<Id>,
    pub kind: ParamKind,
    /// What its type says, as far as the language has it.
    pub of_type: Option<&'a str>,
}

#[derive(Clone, Debug)]
pub struct Function<'a> {
    pub name: &'a str,
    pub params: Vec<Param<'a>>,
    pub returns: Vec<Id>,
    pub scope: ScopeId,
    pub class: Option<ClassId>,
    pub decorators: Vec<Id>,
}

#[derive(Clone, Debug)]
pub struct Class<'a> {
    pub name: &'a str,
    pub bases: Vec<Id>,
    pub methods: HashMap<&'a str, FnId>,
    /// What is assigned to `self.name`, or in the body of the class.
    pub fields: HashMap<&'a str, Vec<Id>>,
}

#[derive(Clone, Debug)]
pub enum Change<'a> {
    /// An element is taken out.
    Removed,
    /// An element or attribute is set.
    Set { key: Option<Cow<'a, str>>, value: Id },
    /// The entries of these are added.
    Updated(Vec<Arg<'a>>),
    /// Everything is taken out.
    Cleared,
}

/// A change of what a name holds.
#[derive(Clone, Debug)]
pub struct Changed<'a> {
    /// The name, or `self.name`.
    pub path: String,
    pub scope: ScopeId,
    pub at: usize,
    pub change: Change<'a>,
}

#[derive(Debug)]
pub struct Code<'a> {
    pub text: &'a str,
    pub language: Language,
    pub exprs: Vec<Expr<'a>>,
    pub scopes: Vec<Scope<'a>>,
    pub functions: Vec<Function<'a>>,
    pub classes: Vec<Class<'a>>,
    pub calls: Vec<Id>,
    /// Subscripts, for libraries that start commands by them.
    pub indexes: Vec<Id>,
    pub changes: HashMap<String, Vec<Changed<'a>>>,
    /// Modules whose names are all taken in.
    pub stars: Vec<Cow<'a, str>>,
    /// What JavaScript exports by name.
    pub exports: Vec<(Cow<'a, str>, Bound<'a>)>,
    /// Where the first import stands, and where the last one ends.
    pub imports: Option<(usize, usize)>,
}

impl<'a> Code<'a> {
    pub fn new(text: &'a str, language: Language) -> Self {
        let module = Scope {
            parent: None,
            kind: ScopeKind::Module,
            names: HashMap::new(),
            function: None,
            class: None,
        };
        Code {
            text,
            language,
            exprs: Vec::new(),
            scopes: vec![module],
            functions: Vec::new(),
            classes: Vec::new(),
            calls: Vec::new(),
            indexes: Vec::new(),
            changes: HashMap::new(),
            stars: Vec::new(),
            exports: Vec::new(),
            imports: None,
        }
    }

    pub fn expr(&self, id: Id) -> &Expr<'a> {
        &self.exprs[id]
    }

    pub fn text_of(&self, id: Id) -> &'a str {
        let expr = &self.exprs[id];
        self.text.get(expr.start..expr.end).unwrap_or("")
    }

    pub fn open_scope(&mut self, parent: ScopeId, kind: ScopeKind) -> ScopeId {
        let above = &self.scopes[parent];
        let (function, class) = (above.function, above.class);
        self.scopes.push(Scope { parent: Some(parent), kind, names: HashMap::new(), function, class });
        self.scopes.len() - 1
    }

    pub fn bind(&mut self, scope: ScopeId, name: &'a str, bound: Bound<'a>, at: usize, branch: bool) {
        self.scopes[scope].names.entry(name).or_default().push(Binding { bound, at, branch });
    }

    /// `name`, `self.name` or `a.b`, where the expression is nothing else.
    pub fn dotted(&self, id: Id) -> Option<String> {
        match &self.exprs[id].kind {
            Kind::Name(name) => Some((*name).to_owned()),
            Kind::Attr(of, name) => Some(format!("{}.{name}", self.dotted(*of)?)),
            _ => None,
        }
    }

    pub fn changed(&mut self, target: Id, scope: ScopeId, at: usize, change: Change<'a>) {
        if let Some(path) = self.dotted(target) {
            self.changes.entry(path.clone()).or_default().push(Changed { path, scope, at, change });
        }
    }

    /// The literal text of an expression.
    pub fn literal(&self, id: Id) -> Option<&str> {
        match &self.exprs[id].kind {
            Kind::Text(Some(text), _) => Some(text),
            _ => None,
        }
    }
}
