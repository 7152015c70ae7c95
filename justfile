# What one does here. CI runs ./test and nothing else.

# Format and lints
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# Everything that must hold
test *args:
    ./test {{args}}

# Ratios of plain spawn, the bare-syscall floor, bubblewrap and us, in one run
bench *args:
    bench/run {{args}}

# `run` of the Python SDK in a session beside subprocess.run: just bench-python EXECUTABLE
bench-python *args:
    bench/sdk-python {{args}}

# `spawn` of the Node SDK in a session beside child_process.spawn
bench-node *args:
    bench/sdk-node {{args}}

# Fuzz every target for some seconds
fuzz seconds="60":
    tools/fuzz {{seconds}}

# Thousands of commands through one session, and hundreds of cages at once: nothing may grow
soak *args:
    tools/soak {{args}}

# Daily work of developers, bare and in a cage: nothing harmless may be refused
workflows *args:
    tools/judge-workflows {{args}}

# The tarball, the deb, the image and the list of parts, into target/package
package *args:
    tools/package {{args}}

# Licences and advisories of dependencies
deny:
    cargo deny check

ci:
    .ci/run
