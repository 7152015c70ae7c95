//! Real repositories and real gits; the layer is what a hostile command could have left.
//!
//! A program of its own: each git that starts holds the locks of the others' tests for a moment.
#![allow(clippy::unwrap_used, clippy::panic)]

use keyward_project::git::transport::{
    Delivered, Delivery, HostGit, Kind, Limits, Refused, Store, Type, deliver, remove_stale, types,
};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;

struct Fixture {
    directory: TempDir,
    seen: BTreeSet<String>,
    limits: Limits,
    shallow: Option<Vec<u8>>,
    known: Option<Vec<Vec<u8>>>,
    is_partial: bool,
    id_length: usize,
    alternates: Vec<PathBuf>,
}

fn run(directory: &Path, arguments: &[&str], input: &[u8]) -> (bool, Vec<u8>) {
    let mut child = std::process::Command::new("git")
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@b"), ("GIT_COMMITTER_NAME", "a")])
        .envs([("GIT_COMMITTER_EMAIL", "a@b"), ("GIT_ALLOW_PROTOCOL", "file")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    (output.status.success(), output.stdout)
}

fn git_with(directory: &Path, arguments: &[&str], input: &[u8]) -> String {
    let (done, output) = run(directory, arguments, input);
    assert!(done, "git {arguments:?} in {}", directory.display());
    String::from_utf8_lossy(&output).trim_end().to_owned()
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    git_with(directory, arguments, b"")
}

fn commit(directory: &Path, name: &str, content: &[u8]) -> String {
    std::fs::write(directory.join(name), content).unwrap();
    git(directory, &["add", "-A"]);
    git(directory, &["commit", "-q", "-m", name]);
    git(directory, &["rev-parse", "HEAD"])
}

fn raw(directory: &Path, kind: &str, content: &[u8]) -> String {
    git_with(directory, &["hash-object", "-w", "--literally", "-t", kind, "--stdin"], content)
}

fn commit_of(directory: &Path, tree: &str) -> String {
    raw(
        directory,
        "commit",
        format!("tree {tree}\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nx\n").as_bytes(),
    )
}

fn bytes_of(id: &str) -> Vec<u8> {
    (0..id.len() / 2).map(|at| u8::from_str_radix(&id[2 * at..2 * at + 2], 16).unwrap()).collect()
}

fn loose_path(objects: &Path, id: &str) -> PathBuf {
    objects.join(&id[..2]).join(&id[2..])
}

fn files_below(path: &Path) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        match path.symlink_metadata().unwrap().is_dir() {
            true => all.extend(files_below(&path)),
            false => drop(all.insert(path)),
        }
    }
    all
}

impl Fixture {
    fn with(format: &str) -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        let host = directory.path().join("host");
        git(directory.path(), &["init", "-q", "-b", "main", &format!("--object-format={format}"), "host"]);
        commit(&host, "first", b"first\n");
        Fixture::around(directory, if format == "sha256" { 32 } else { 20 })
    }

    /// With a cage's repository that borrows from the host's.
    fn around(directory: TempDir, id_length: usize) -> Fixture {
        let host = directory.path().join("host");
        git(directory.path(), &["clone", "-q", "--shared", "--no-checkout", host.to_str().unwrap(), "cage"]);
        let (known, shallow) = (None, None);
        let seen = BTreeSet::new();
        let fixture = Fixture {
            directory,
            seen,
            limits: Limits::default(),
            shallow,
            known,
            is_partial: false,
            id_length,
            alternates: Vec::new(),
        };
        // Fails where the host never fetched the files, which those tests do without.
        let _ = run(&fixture.cage(), &["reset", "-q", "--hard"], b"");
        fixture
    }

    fn new() -> Fixture {
        Fixture::with("sha1")
    }

    fn host(&self) -> PathBuf {
        self.directory.path().join("host")
    }

    fn cage(&self) -> PathBuf {
        self.directory.path().join("cage")
    }

    fn layer(&self) -> PathBuf {
        self.cage().join(".git/objects")
    }

    fn store(&self) -> Store {
        Store {
            objects: self.host().join(".git/objects"),
            alternates: self.alternates.clone(),
            scratch: self.host().join(".git"),
            id_length: self.id_length,
            is_partial: self.is_partial,
        }
    }

    fn deliver(&mut self, tips: &[&str]) -> Result<Delivered, Refused> {
        let known = self.known.clone().unwrap_or_else(|| {
            let known = git(&self.host(), &["for-each-ref", "--format=%(objectname)"]);
            known.lines().map(|line| line.as_bytes().to_vec()).collect()
        });
        let tips: Vec<_> = tips.iter().map(|tip| tip.as_bytes().to_vec()).collect();
        let done = deliver(Delivery {
            git: &HostGit::find("".as_ref()).unwrap(),
            from: &self.layer(),
            to: &self.store(),
            seen: &mut self.seen,
            tips: &tips,
            known: &known,
            asked: &[],
            shallow: self.shallow.as_deref(),
            is_selective: false,
            limits: self.limits,
        });
        let has_mark =
            files_below(&self.host()).iter().any(|path| path.extension().is_some_and(|it| it == "keep"));
        if done.is_err() || !has_mark {
            assert_eq!(self.incoming(), Vec::<PathBuf>::new());
        }
        done
    }

    /// Nothing of it reaches the host.
    fn refuses(&mut self, tips: &[&str], kind: Kind) -> String {
        let before = files_below(&self.host());
        let refused = self.deliver(tips).err().unwrap();
        assert_eq!(refused.kind, kind, "{}", refused.why);
        assert_eq!(files_below(&self.host()), before);
        assert!(self.seen.is_empty());
        refused.why
    }

    fn incoming(&self) -> Vec<PathBuf> {
        let all = std::fs::read_dir(self.store().scratch).unwrap().map(|entry| entry.unwrap().path());
        all.filter(|path| path.to_str().unwrap().contains("keyward-incoming")).collect()
    }

    fn has(&self, id: &str) -> bool {
        run(&self.host(), &["cat-file", "-e", id], b"").0
    }

    /// References move, and git finds nothing wrong.
    fn is_sound_at(&self, tip: &str) {
        git(&self.host(), &["update-ref", "refs/heads/delivered", tip]);
        git(&self.host(), &["fsck", "--strict", "--full"]);
    }
}

#[test]
fn one_commit_arrives_as_loose_objects() {
    for format in ["sha1", "sha256"] {
        let mut fixture = Fixture::with(format);
        let tip = commit(&fixture.cage(), "second", b"second\n");
        let delivered = fixture.deliver(&[&tip]).unwrap();
        assert_eq!(delivered.objects, 3);
        delivered.finish();
        let file = loose_path(&fixture.store().objects, &tip);
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o444);
        assert_eq!(file.metadata().unwrap().nlink(), 1);
        fixture.is_sound_at(&tip);
    }
}

#[test]
fn many_objects_arrive_as_one_pack_that_gc_leaves_alone() {
    let mut fixture = Fixture::new();
    for number in 0..300 {
        std::fs::write(fixture.cage().join(format!("f{number}")), format!("{number}\n")).unwrap();
    }
    let tip = commit(&fixture.cage(), "last", b"last\n");
    let delivered = fixture.deliver(&[&tip]).unwrap();
    assert_eq!(delivered.objects, 303);
    let packs = fixture.store().objects.join("pack");
    let endings = |ending: &str| {
        files_below(&packs).into_iter().filter(|path| path.extension().is_some_and(|it| it == ending)).count()
    };
    assert_eq!((endings("pack"), endings("idx"), endings("keep")), (1, 1, 1));
    // Neither does another start of ours take the mark away, nor does `gc` remove the pack.
    remove_stale(&fixture.store());
    git(&fixture.host(), &["gc", "-q", "--prune=now"]);
    assert!(fixture.has(&tip));
    fixture.is_sound_at(&tip);
    delivered.finish();
    assert_eq!(endings("keep"), 0);
    assert_eq!(fixture.incoming(), Vec::<PathBuf>::new());
}

#[test]
fn packs_with_deltas_arrive() {
    for format in ["sha1", "sha256"] {
        let mut fixture = Fixture::with(format);
        let mut text: Vec<u8> =
            (0..20_000u32).flat_map(|number| format!("{number}\n").into_bytes()).collect();
        for number in 0..60 {
            text[number * 100] = b'x';
            commit(&fixture.cage(), "text", &text);
        }
        git(&fixture.cage(), &["repack", "-q", "-a", "-d", "-l", "--depth=50"]);
        let tip = git(&fixture.cage(), &["rev-parse", "HEAD"]);
        let delivered = fixture.deliver(&[&tip]).unwrap();
        assert_eq!(delivered.objects, 180);
        delivered.finish();
        fixture.is_sound_at(&tip);
    }
}

#[test]
fn a_second_delivery_sends_only_what_is_new() {
    let mut fixture = Fixture::new();
    let tip = commit(&fixture.cage(), "second", b"second\n");
    assert_eq!(fixture.deliver(&[&tip]).unwrap().objects, 3);
    assert_eq!(fixture.seen.len(), 3);
    git(&fixture.host(), &["update-ref", "refs/heads/main", &tip]);
    // What was delivered is not opened again: it could not be read.
    for id in &fixture.seen {
        std::fs::remove_file(loose_path(&fixture.layer(), id)).unwrap();
        std::fs::write(loose_path(&fixture.layer(), id), "broken").unwrap();
    }
    assert_eq!(fixture.deliver(&[&tip]).unwrap().objects, 0);
    let blob = git_with(&fixture.cage(), &["hash-object", "-w", "--stdin"], b"third\n");
    assert_eq!(fixture.deliver(&[&tip, &blob]).unwrap().objects, 1);
    assert!(fixture.has(&blob));
}

#[test]
fn what_the_host_has_pruned_since_is_sent_again() {
    let mut fixture = Fixture::new();
    let tip = commit(&fixture.cage(), "second", b"second\n");
    assert_eq!(fixture.deliver(&[&tip]).unwrap().objects, 3);
    git(&fixture.host(), &["gc", "-q", "--prune=now"]);
    assert!(!fixture.has(&tip));
    assert_eq!(fixture.deliver(&[&tip]).unwrap().objects, 3);
    fixture.is_sound_at(&tip);
}

#[test]
fn copies_of_the_hosts_own_objects_are_not_sent() {
    let mut fixture = Fixture::new();
    let first = git(&fixture.host(), &["rev-parse", "HEAD"]);
    let from = loose_path(&fixture.store().objects, &first);
    let to = loose_path(&fixture.layer(), &first);
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::copy(from, to).unwrap();
    assert_eq!(fixture.deliver(&[]).unwrap().objects, 0);
}

/// An index that names an object which the layer does not have: the packer looks for it wherever it can.
fn name_in_layer(fixture: &Fixture, secret: &Path, id: &str) {
    let packed = fixture.directory.path().join("packed");
    std::fs::create_dir_all(&packed).unwrap();
    let hash = git_with(
        secret,
        &["pack-objects", "-q", packed.join("pack").to_str().unwrap()],
        format!("{id}\n").as_bytes(),
    );
    let name = format!("pack-{hash}.idx");
    std::fs::create_dir_all(fixture.layer().join("pack")).unwrap();
    std::fs::copy(packed.join(&name), fixture.layer().join("pack").join(&name)).unwrap();
}

fn secret_repository(fixture: &Fixture) -> (PathBuf, String) {
    git(fixture.directory.path(), &["init", "-q", "secret"]);
    let secret = fixture.directory.path().join("secret");
    let id = git_with(&secret, &["hash-object", "-w", "--stdin"], b"a private key\n");
    (secret, id)
}

#[test]
fn a_link_in_the_layer_brings_nothing_from_another_repository() {
    let mut fixture = Fixture::new();
    let (secret, id) = secret_repository(&fixture);
    symlink(secret.join(".git/objects").join(&id[..2]), fixture.layer().join(&id[..2])).unwrap();
    name_in_layer(&fixture, &secret, &id);
    // Without walls git follows the link.
    let control = ["pack-objects", "-q", "--stdout", "--local", "--window=0"];
    let (done, pack) = run(&fixture.cage(), &control, format!("{id}\n").as_bytes());
    assert!(done && pack[..12] == *b"PACK\0\0\0\x02\0\0\0\x01");
    fixture.refuses(&[], Kind::Missing);
    assert!(!fixture.has(&id));
}

#[test]
fn alternates_of_the_layer_bring_nothing_from_another_repository() {
    let mut fixture = Fixture::new();
    let (secret, id) = secret_repository(&fixture);
    std::fs::write(fixture.layer().join("info/alternates"), secret.join(".git/objects").to_str().unwrap())
        .unwrap();
    name_in_layer(&fixture, &secret, &id);
    let control = ["pack-objects", "-q", "--stdout", "--window=0"];
    let (done, pack) = run(&fixture.cage(), &control, format!("{id}\n").as_bytes());
    assert!(done && pack[..12] == *b"PACK\0\0\0\x02\0\0\0\x01");
    fixture.refuses(&[&id], Kind::Missing);
    assert!(!fixture.has(&id));
}

#[test]
fn an_object_directory_that_is_a_link_is_refused() {
    let mut fixture = Fixture::new();
    let (secret, _) = secret_repository(&fixture);
    std::fs::rename(fixture.layer(), fixture.cage().join("away")).unwrap();
    symlink(secret.join(".git/objects"), fixture.layer()).unwrap();
    fixture.refuses(&[], Kind::Hostile);
}

#[test]
fn a_forged_object_does_not_take_the_name_it_claims() {
    let mut fixture = Fixture::new();
    let tip = commit(&fixture.cage(), "second", b"second\n");
    let blob = git(&fixture.cage(), &["rev-parse", "HEAD:second"]);
    let other = git_with(&fixture.cage(), &["hash-object", "-w", "--stdin"], b"forged\n");
    let forged = loose_path(&fixture.layer(), &blob);
    std::fs::rename(loose_path(&fixture.layer(), &other), forged).unwrap();
    fixture.refuses(&[&tip], Kind::Missing);
    // The tip itself, with nothing that leads to it.
    let mut fixture = Fixture::new();
    let tip = git_with(&fixture.cage(), &["hash-object", "-w", "--stdin"], b"wanted\n");
    let other = git_with(&fixture.cage(), &["hash-object", "-w", "--stdin"], b"forged\n");
    std::fs::rename(loose_path(&fixture.layer(), &other), loose_path(&fixture.layer(), &tip)).unwrap();
    fixture.refuses(&[&tip], Kind::Missing);
}

#[test]
fn a_tree_with_a_dangerous_name_is_refused() {
    for name in [".git", "..", ".", ".GIT", "git~1", "a/b"] {
        for count in [1, 200] {
            let mut fixture = Fixture::new();
            let blob = git_with(&fixture.cage(), &["hash-object", "-w", "--stdin"], b"x\n");
            for number in 1..count {
                git_with(&fixture.cage(), &["hash-object", "-w", "--stdin"], number.to_string().as_bytes());
                if name != ".git" {
                    break;
                }
            }
            let entry = [b"100644 ", name.as_bytes(), b"\0", &bytes_of(&blob)].concat();
            let tree = raw(&fixture.cage(), "tree", &entry);
            let tip = commit_of(&fixture.cage(), &tree);
            let why = fixture.refuses(&[&tip], Kind::Hostile);
            assert!(why.starts_with(&format!("object {tree}: ")), "{why}");
        }
    }
}

#[test]
fn a_tree_with_a_harmful_entry_is_refused() {
    let entries: &[(&str, &str, &[u8])] = &[
        ("100644", ".gitmodules", b"[submodule \"a\"]\n\tpath = a\n\turl = --upload-pack=x\n"),
        ("100644", ".gitmodules", b"[submodule \"../a\"]\n\tpath = a\n\turl = b\n"),
        ("100644", ".gitmodules", b"[submodule"),
        ("120000", ".gitmodules", b"x"),
        ("120000", ".gitattributes", b"x"),
        ("120000", ".gitignore", b"x"),
        ("120000", ".mailmap", b"x"),
        ("100600", "file", b"x"),
    ];
    for (mode, name, content) in entries {
        let mut fixture = Fixture::new();
        let blob = git_with(&fixture.cage(), &["hash-object", "-w", "--stdin"], content);
        let entry = [mode.as_bytes(), b" ", name.as_bytes(), b"\0", &bytes_of(&blob)].concat();
        let tip = commit_of(&fixture.cage(), &raw(&fixture.cage(), "tree", &entry));
        fixture.refuses(&[&tip], Kind::Hostile);
    }
}

#[test]
fn harmless_defects_of_old_histories_arrive() {
    let mut fixture = Fixture::new();
    let blob = git_with(&fixture.cage(), &["hash-object", "-w", "--stdin"], b"x\n");
    let inner = raw(&fixture.cage(), "tree", &[b"100644 a\0", bytes_of(&blob).as_slice()].concat());
    let tree = raw(&fixture.cage(), "tree", &[b"040000 a\0", bytes_of(&inner).as_slice()].concat());
    let mut tips = Vec::new();
    for person in
        ["a <a@b> 1 +000000", "a <a@b> 01 +0000", "a <a@b> 99999999999999999999 +0000", "<a@b> 1 +0000"]
    {
        let text = format!("tree {tree}\nauthor {person}\ncommitter {person}\n\nx\n");
        tips.push(raw(&fixture.cage(), "commit", text.as_bytes()));
    }
    let tips: Vec<_> = tips.iter().map(String::as_str).collect();
    assert_eq!(fixture.deliver(&tips).unwrap().objects, 7);
}

/// Length of an object in a pack, with its type, as the format wants it.
fn head_of(kind: u8, length: usize) -> Vec<u8> {
    let mut out = vec![kind << 4 | u8::try_from(length & 15).unwrap()];
    let mut rest = length >> 4;
    while rest > 0 {
        *out.last_mut().unwrap() |= 0x80;
        out.push(u8::try_from(rest & 127).unwrap());
        rest >>= 7;
    }
    out
}

fn number(mut rest: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while rest > 127 {
        out.push(u8::try_from(rest & 127).unwrap() | 0x80);
        rest >>= 7;
    }
    out.push(u8::try_from(rest).unwrap());
    out
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::ZlibEncoder::new(bytes, flate2::Compression::fast()).read_to_end(&mut out).unwrap();
    out
}

#[test]
fn a_few_bytes_of_deltas_cannot_take_all_memory() {
    use sha1::Digest;
    let mut fixture = Fixture::new();
    let base = vec![0; 0xff_ffff];
    // Each instruction copies all of the base.
    let copies = 20;
    let mut delta = [number(base.len()), number(copies * base.len())].concat();
    delta.extend([0xf0, 0xff, 0xff, 0xff].repeat(copies));
    let mut pack = [b"PACK\0\0\0\x02\0\0\0\x02".to_vec(), head_of(3, base.len()), deflated(&base)].concat();
    let before = pack.len() - 12;
    pack.extend(head_of(6, delta.len()));
    // The distance to the base, in the way of the format.
    let mut distance = vec![u8::try_from(before & 127).unwrap()];
    let mut rest = before >> 7;
    while rest > 0 {
        rest -= 1;
        distance.insert(0, u8::try_from(rest & 127).unwrap() | 0x80);
        rest >>= 7;
    }
    pack.extend(distance);
    pack.extend(deflated(&delta));
    let sum = sha1::Sha1::digest(&pack);
    pack.extend_from_slice(&sum);
    assert!(pack.len() < 100_000);
    git_with(&fixture.cage(), &["index-pack", "--stdin"], &pack);
    assert_eq!(fixture.refuses(&[], Kind::TooLarge).split(' ').next(), Some("attempting"));
}

#[test]
fn a_small_file_that_becomes_large_is_stopped() {
    let mut fixture = Fixture::new();
    let large = vec![0; 100 << 20];
    let tip = git_with(&fixture.cage(), &["hash-object", "-w", "--stdin"], &large);
    assert!(loose_path(&fixture.layer(), &tip).metadata().unwrap().len() < 1 << 20);
    fixture.limits.bytes = 50 << 20;
    fixture.refuses(&[&tip], Kind::TooLarge);
    fixture.limits.bytes = 200 << 20;
    assert_eq!(fixture.deliver(&[&tip]).unwrap().objects, 1);
}

#[test]
fn too_many_objects_are_refused() {
    let mut fixture = Fixture::new();
    let tip = commit(&fixture.cage(), "second", b"second\n");
    fixture.limits.objects = 2;
    fixture.refuses(&[&tip], Kind::TooLarge);
    git(&fixture.cage(), &["repack", "-q", "-a", "-d", "-l"]);
    fixture.refuses(&[&tip], Kind::TooLarge);
    fixture.limits.objects = 3;
    assert_eq!(fixture.deliver(&[&tip]).unwrap().objects, 3);
}

fn make_fifo(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

#[test]
fn a_fifo_in_the_layer_does_not_hang() {
    // As an object it is not listed.
    let mut fixture = Fixture::new();
    let tip = commit(&fixture.cage(), "second", b"second\n");
    make_fifo(&loose_path(&fixture.layer(), &"a".repeat(40)));
    assert_eq!(fixture.deliver(&[&tip]).unwrap().objects, 3);
    // Git opens whatever has one of these names.
    let pack = format!("pack/pack-{}", "b".repeat(40));
    for name in [format!("{pack}.idx"), format!("{pack}.pack"), "info/alternates".into()] {
        let mut fixture = Fixture::new();
        commit(&fixture.cage(), "second", b"second\n");
        let _ = std::fs::remove_file(fixture.layer().join(&name));
        make_fifo(&fixture.layer().join(&name));
        fixture.refuses(&[], Kind::Hostile);
    }
}

/// A layer that makes the packer wait: it is told to read an object that is a FIFO.
fn stuck() -> Fixture {
    let mut fixture = Fixture::new();
    let (secret, id) = secret_repository(&fixture);
    name_in_layer(&fixture, &secret, &id);
    make_fifo(&loose_path(&fixture.layer(), &id));
    fixture.limits.time = Duration::from_secs(1);
    fixture
}

#[test]
fn a_git_that_waits_is_ended_in_time() {
    let mut fixture = stuck();
    fixture.refuses(&[], Kind::TooLong);
}

#[test]
fn a_withheld_object_is_missed() {
    // A commit without its tree; then a tree without its blob, which is the tip's neighbour's neighbour.
    let mut fixture = Fixture::new();
    let tip = commit(&fixture.cage(), "second", b"second\n");
    let tree = git(&fixture.cage(), &["rev-parse", "HEAD^{tree}"]);
    std::fs::remove_file(loose_path(&fixture.layer(), &tree)).unwrap();
    fixture.refuses(&[&tip], Kind::Missing);
    // As a pack.
    for number in 0..200 {
        git_with(&fixture.cage(), &["hash-object", "-w", "--stdin"], number.to_string().as_bytes());
    }
    fixture.refuses(&[&tip], Kind::Missing);
    // A tip that is nowhere.
    let mut fixture = Fixture::new();
    fixture.refuses(&[&"a".repeat(40)], Kind::Missing);
}

#[test]
fn a_tip_among_the_hosts_unreachable_objects_must_be_complete() {
    let mut fixture = Fixture::new();
    // The host has a commit without its tree: a `gc` removed that. Links of what arrives are not enough to see it.
    let tree = git_with(&fixture.host(), &["mktree"], b"");
    let old = commit_of(&fixture.host(), &tree);
    std::fs::remove_file(loose_path(&fixture.store().objects, &tree)).unwrap();
    let first = git(&fixture.host(), &["rev-parse", "HEAD^{tree}"]);
    let text =
        format!("tree {first}\nparent {old}\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nx\n");
    let blob = git_with(&fixture.host(), &["hash-object", "-w", "--stdin"], b"hidden\n");
    let outer = raw(&fixture.host(), "tree", &[b"100644 a\0", bytes_of(&blob).as_slice()].concat());
    std::fs::remove_file(loose_path(&fixture.store().objects, &blob)).unwrap();
    let tip = raw(&fixture.cage(), "commit", text.replace(&first, &outer).as_bytes());
    fixture.refuses(&[&tip], Kind::Missing);
}

#[test]
fn a_broken_reference_of_the_host_does_not_stop_a_delivery() {
    let mut fixture = Fixture::new();
    let tip = commit(&fixture.cage(), "second", b"second\n");
    let first = git(&fixture.host(), &["rev-parse", "HEAD"]);
    fixture.known = Some(vec![first.into_bytes(), b"b".repeat(40)]);
    assert_eq!(fixture.deliver(&[&tip]).unwrap().objects, 3);
}

#[test]
fn only_objects_cross() {
    let mut fixture = Fixture::new();
    commit(&fixture.cage(), "second", b"second\n");
    let tip = commit(&fixture.cage(), "third", b"third\n");
    git(&fixture.cage(), &["repack", "-q", "-a", "-d", "-l"]);
    git(&fixture.cage(), &["commit-graph", "write", "--reachable"]);
    git(&fixture.cage(), &["multi-pack-index", "write"]);
    let first = git(&fixture.cage(), &["rev-parse", "HEAD~2"]);
    git(&fixture.cage(), &["replace", &tip, &first]);
    for file in files_below(&fixture.layer().join("pack"))
        .iter()
        .filter(|file| file.to_str().unwrap().ends_with(".pack"))
    {
        std::fs::write(file.with_extension("promisor"), "").unwrap();
        std::fs::write(file.with_extension("keep"), "").unwrap();
    }
    assert!(fixture.layer().join("info/commit-graph").exists());
    assert!(fixture.layer().join("pack/multi-pack-index").exists());
    let before = files_below(&fixture.store().objects);
    fixture.deliver(&[&tip]).unwrap().finish();
    let after = files_below(&fixture.store().objects);
    let new: Vec<_> = after.difference(&before).collect();
    assert_eq!(new.len(), 6);
    assert!(new.iter().all(|path| path.file_name().unwrap().len() == 38), "{new:?}");
    assert!(!fixture.host().join(".git/refs/replace").exists());
    fixture.is_sound_at(&tip);
}

#[test]
fn types_are_what_the_host_says() {
    let fixture = Fixture::new();
    let ids = ["HEAD", "HEAD^{tree}", "HEAD:first"].map(|name| git(&fixture.host(), &["rev-parse", name]));
    let mut ids: Vec<_> = ids.iter().map(|id| id.as_bytes().to_vec()).collect();
    ids.push(b"c".repeat(40));
    let git = HostGit::find("".as_ref()).unwrap();
    let expected = [Some(Type::Commit), Some(Type::Tree), Some(Type::Blob), None];
    assert_eq!(types(&git, &fixture.store(), &ids).unwrap(), expected);
    assert_eq!(types(&git, &fixture.store(), &[b"--help".to_vec()]).unwrap_err().kind, Kind::Hostile);
    assert_eq!(fixture.incoming(), Vec::<PathBuf>::new());
}

#[test]
fn a_store_may_have_any_name() {
    let mut fixture = Fixture::new();
    let odd = fixture.directory.path().join("a:b \"c\" \u{e4}");
    std::fs::rename(fixture.host().join(".git/objects"), &odd).unwrap();
    symlink(&odd, fixture.host().join(".git/objects")).unwrap();
    let tip = commit(&fixture.cage(), "second", b"second\n");
    let store =
        Store { objects: odd.clone(), scratch: fixture.directory.path().to_owned(), ..fixture.store() };
    let first = git(&fixture.host(), &["rev-parse", "HEAD"]).into_bytes();
    let delivered = deliver(Delivery {
        git: &HostGit::find("".as_ref()).unwrap(),
        from: &fixture.layer(),
        to: &store,
        seen: &mut fixture.seen,
        tips: &[tip.clone().into_bytes()],
        known: &[first],
        asked: &[],
        shallow: None,
        is_selective: false,
        limits: Limits::default(),
    });
    assert_eq!(delivered.unwrap().objects, 3);
    fixture.is_sound_at(&tip);
}

fn upstream() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    git(directory.path(), &["init", "-q", "-b", "main", "upstream"]);
    let upstream = directory.path().join("upstream");
    git(&upstream, &["config", "uploadpack.allowFilter", "true"]);
    commit(&upstream, "first", b"first\n");
    git(&upstream, &["checkout", "-q", "-b", "other"]);
    commit(&upstream, "a", b"a\n");
    commit(&upstream, "b", b"b\n");
    git(&upstream, &["checkout", "-q", "main"]);
    directory
}

#[test]
fn a_shallow_commit_arrives_with_its_line_only() {
    let directory = upstream();
    let from = format!("file://{}", directory.path().join("upstream").display());
    git(directory.path(), &["clone", "-q", "--depth=1", "--branch=main", &from, "host"]);
    let mut fixture = Fixture::around(directory, 20);
    let host = std::fs::read_to_string(fixture.host().join(".git/shallow")).unwrap();
    git(&fixture.cage(), &["fetch", "-q", "--depth=1", &from, "other"]);
    let tip = git(&fixture.cage(), &["rev-parse", "FETCH_HEAD"]);
    fixture.shallow = Some(host.clone().into_bytes());
    fixture.refuses(&[&tip], Kind::Missing);
    let shallow = format!("{host}{tip}\n");
    fixture.shallow = Some(shallow.clone().into_bytes());
    fixture.deliver(&[&tip]).unwrap().finish();
    std::fs::write(fixture.host().join(".git/shallow"), shallow).unwrap();
    fixture.is_sound_at(&tip);
}

#[test]
fn a_commit_beside_objects_that_the_host_never_fetched_arrives() {
    let directory = upstream();
    let from = format!("file://{}", directory.path().join("upstream").display());
    git(directory.path(), &["clone", "-q", "--filter=blob:none", "--no-checkout", &from, "host"]);
    let mut fixture = Fixture::around(directory, 20);
    let tree = git(&fixture.host(), &["rev-parse", "HEAD^{tree}"]);
    let listed = git(&fixture.host(), &["ls-tree", &tree]);
    let blob = git_with(&fixture.cage(), &["hash-object", "-w", "--stdin"], b"mine\n");
    let made = format!("{listed}\n100644 blob {blob}\tmine\n");
    let tip =
        commit_of(&fixture.cage(), &git_with(&fixture.cage(), &["mktree", "--missing"], made.as_bytes()));
    // Its links lead nowhere, which only a host that says so may have.
    fixture.refuses(&[&tip], Kind::Missing);
    fixture.is_partial = true;
    assert_eq!(fixture.deliver(&[&tip]).unwrap().objects, 3);
    // What the command itself withholds is still missed, and git still judges.
    fixture.seen.clear();
    let hole = format!("100644 blob {}\tmine\n", "a".repeat(40));
    let tip =
        commit_of(&fixture.cage(), &git_with(&fixture.cage(), &["mktree", "--missing"], hole.as_bytes()));
    fixture.refuses(&[&tip], Kind::Missing);
    let entry = [b"100644 .git\0", bytes_of(&blob).as_slice()].concat();
    let tip = commit_of(&fixture.cage(), &raw(&fixture.cage(), "tree", &entry));
    fixture.refuses(&[&tip], Kind::Hostile);
}

/// Not a test: the process that the next test kills.
#[test]
#[ignore = "started by another test"]
fn delivers_without_end() {
    let Some(path) = std::env::var_os("KEYWARD_TEST_STUCK") else { return };
    let path = PathBuf::from(path);
    let store = Store {
        objects: path.join("host/.git/objects"),
        alternates: Vec::new(),
        scratch: path.join("host/.git"),
        id_length: 20,
        is_partial: false,
    };
    let _ = deliver(Delivery {
        git: &HostGit::find("".as_ref()).unwrap(),
        from: &path.join("cage/.git/objects"),
        to: &store,
        seen: &mut BTreeSet::new(),
        tips: &[],
        known: &[],
        asked: &[],
        shallow: None,
        is_selective: false,
        limits: Limits::default(),
    });
}

/// Processes that were started with this in an argument.
fn processes_with(text: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| {
        std::fs::read(entry.path().join("cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains(text))
    })
    .count()
}

fn wait_until(holds: impl Fn() -> bool) {
    for _ in 0..3000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("waited for too long");
}

#[test]
fn a_killed_delivery_leaves_one_directory_which_the_next_start_removes() {
    let fixture = stuck();
    let before = files_below(&fixture.host());
    let name = "delivers_without_end";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored"])
        .env("KEYWARD_TEST_STUCK", fixture.directory.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let text = fixture.host().join(".git/keyward-incoming").to_str().unwrap().to_owned();
    wait_until(|| processes_with(&text) == 2 && !fixture.incoming().is_empty());
    // The directory of a live process stays.
    remove_stale(&fixture.store());
    assert_eq!(fixture.incoming().len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until(|| processes_with(&text) == 0);
    assert_eq!(fixture.incoming().len(), 1);
    let left: Vec<_> = files_below(&fixture.host()).difference(&before).cloned().collect();
    assert!(left.iter().all(|path| path.starts_with(&fixture.incoming()[0])), "{left:?}");
    // Another test's git may hold the lock for a moment: it was started as a copy of us.
    wait_until(|| {
        remove_stale(&fixture.store());
        fixture.incoming().is_empty()
    });
    assert_eq!(files_below(&fixture.host()), before);
}

#[test]
fn a_mark_of_a_dead_process_is_removed_and_one_of_the_users_stays() {
    let fixture = Fixture::new();
    let packs = fixture.store().objects.join("pack");
    std::fs::write(packs.join("pack-a.keep"), "keyward-incoming-00\n").unwrap();
    std::fs::write(packs.join("pack-b.keep"), "mine\n").unwrap();
    remove_stale(&fixture.store());
    assert!(!packs.join("pack-a.keep").exists());
    assert!(packs.join("pack-b.keep").exists());
}

#[test]
fn a_host_that_borrows_objects_is_walked_through() {
    let directory = upstream();
    let upstream = directory.path().join("upstream");
    git(directory.path(), &["clone", "-q", "--shared", upstream.to_str().unwrap(), "host"]);
    let mut fixture = Fixture::around(directory, 20);
    let tip = commit(&fixture.cage(), "second", b"second\n");
    // What the caller does not name is closed to the gits.
    fixture.refuses(&[&tip], Kind::Missing);
    fixture.alternates = vec![upstream.join(".git/objects")];
    assert_eq!(fixture.deliver(&[&tip]).unwrap().objects, 3);
    fixture.is_sound_at(&tip);
}
