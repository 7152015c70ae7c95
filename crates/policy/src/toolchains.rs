//! Toolchains and caches that live in a HOME: what a cage shows of them. Adding one is one entry.
//!
//! A toolchain appears, read-only, when the caller's PATH leads into it. A cache is Keyward's own and writable; what the user already
//! has there shines through from below, so that `cargo build` finds the crates that were downloaded outside.

/// A toolchain below HOME.
pub struct Toolchain {
    pub name: &'static str,
    /// A PATH entry below this folder means that the toolchain is in use.
    pub home: &'static str,
    /// What it needs, relative to HOME.
    pub shows: &'static [&'static str],
    /// Files in there that hold credentials, relative to HOME.
    pub secrets: &'static [&'static str],
}

/// The table.
pub const TOOLCHAINS: &[Toolchain] = &[
    Toolchain {
        name: "rustup",
        home: ".cargo/bin",
        shows: &[".cargo/bin", ".cargo/env", ".rustup"],
        secrets: &[],
    },
    Toolchain { name: "pyenv", home: ".pyenv", shows: &[".pyenv"], secrets: &[] },
    Toolchain { name: "nvm", home: ".nvm", shows: &[".nvm"], secrets: &[] },
    Toolchain { name: "volta", home: ".volta", shows: &[".volta"], secrets: &[] },
    Toolchain { name: "fnm", home: ".local/share/fnm", shows: &[".local/share/fnm"], secrets: &[] },
    Toolchain { name: "asdf", home: ".asdf", shows: &[".asdf", ".tool-versions"], secrets: &[] },
    Toolchain { name: "mise", home: ".local/share/mise", shows: &[".local/share/mise"], secrets: &[] },
    Toolchain { name: "rbenv", home: ".rbenv", shows: &[".rbenv"], secrets: &[] },
    Toolchain { name: "sdkman", home: ".sdkman", shows: &[".sdkman"], secrets: &[] },
    Toolchain { name: "go", home: "go/bin", shows: &["go/bin"], secrets: &[] },
    Toolchain { name: "go-sdk", home: ".local/go", shows: &[".local/go"], secrets: &[] },
    Toolchain { name: "bun", home: ".bun", shows: &[".bun/bin"], secrets: &[] },
    Toolchain { name: "deno", home: ".deno", shows: &[".deno/bin"], secrets: &[] },
    Toolchain { name: "pnpm", home: ".local/share/pnpm", shows: &[".local/share/pnpm"], secrets: &[] },
    Toolchain { name: "npm-global", home: ".npm-global", shows: &[".npm-global"], secrets: &[] },
    Toolchain { name: "miniconda", home: "miniconda3", shows: &["miniconda3"], secrets: &[] },
    Toolchain { name: "anaconda", home: "anaconda3", shows: &["anaconda3"], secrets: &[] },
    Toolchain { name: "miniforge", home: "miniforge3", shows: &["miniforge3"], secrets: &[] },
    Toolchain { name: "ghcup", home: ".ghcup", shows: &[".ghcup"], secrets: &[] },
    Toolchain { name: "opam", home: ".opam", shows: &[".opam"], secrets: &[] },
    Toolchain { name: "juliaup", home: ".juliaup", shows: &[".juliaup", ".julia/juliaup"], secrets: &[] },
    Toolchain {
        name: "local",
        home: ".local/bin",
        shows: &[
            ".local/bin",
            ".local/lib",
            ".local/pipx",
            ".local/share/pipx",
            ".local/share/uv",
            ".local/share/claude",
        ],
        secrets: &[".local/share/uv/credentials"],
    },
];

/// Folders below HOME that tools fill with what they download.
pub const CACHES: &[&str] = &[
    ".cargo/registry",
    ".cargo/git",
    ".npm",
    ".m2/repository",
    ".gradle/caches",
    "go/pkg/mod",
    ".local/share/pnpm/store",
];

/// Parts of these caches that are no downloads: whole projects, logs, and clones with the addresses they came from. A cage has its own.
pub const OWN_PARTS: &[&str] = &[".npm/_npx", ".npm/_logs", "go/pkg/mod/cache/vcs"];
