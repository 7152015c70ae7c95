//! The attacks of `keyward doctor --attack`, each as a test of its own: what it tries works outside the cage and not inside.
//!
//! They are written once, in the crate `attack`. What needs other programs (gcc, python, real daemons) is in `attacks_*.rs`.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use support::{Stage, Who, eventually, keyward, stderr, stdout};

/// What `keyward doctor --attack --json` finds, as this user.
fn attacked(stage: &Stage, arguments: &[&str]) -> (Option<i32>, Value) {
    let output =
        stage.command(keyward()).args(["doctor", "--attack", "--json"]).args(arguments).output().unwrap();
    let found = serde_json::from_str(&stdout(&output));
    (output.status.code(), found.unwrap_or_else(|_| panic!("no findings: {}", stderr(&output))))
}

#[track_caller]
fn holds(who: Who, name: &str) {
    let (code, found) = attacked(&Stage::new(who), &["--only", name]);
    let row = &found["attacks"][0];
    assert_eq!(row["name"], name);
    assert_eq!(row["verdict"], "held", "{who:?}: {row}");
    assert_eq!(code, Some(0));
}

macro_rules! attacks {
    ($($name:ident: $($who:ident),+;)*) => {
        const LISTED: &[&str] = &[$(stringify!($name)),*];

        $(
            #[test]
            fn $name() {
                $(holds(Who::$who, stringify!($name));)+
            }
        )*
    };
}

attacks! {
    // Credentials in memory and process state.
    a_child_does_not_get_a_credential_by_name: User, Root;
    a_child_does_not_get_a_credential_under_an_innocent_name: User, Root;
    a_credential_in_an_operational_variable_does_not_pass: User, Root;
    a_child_cannot_read_its_parents_environ: User, Root;
    a_sweep_of_procfs_finds_no_variable_of_the_caller: User, Root;
    a_sweep_of_procfs_finds_nothing_of_a_neighbour: User, Root;
    the_command_line_of_a_neighbour_is_not_visible: User, Root;
    the_memory_of_a_neighbour_cannot_be_read: User, Root;
    process_vm_readv_does_not_reach_a_neighbour: User, Root;
    a_neighbour_cannot_be_traced: User, Root;
    a_descriptor_cannot_be_taken_from_a_neighbour: User, Root;
    a_descriptor_of_a_neighbour_cannot_be_opened: User, Root;
    an_inherited_file_is_closed: User, Root;
    an_inherited_directory_that_leads_out_is_closed: User, Root;
    an_inherited_socket_is_closed: User, Root;
    keys_of_the_caller_cannot_be_read: User, Root;
    keys_of_the_caller_are_not_listed: User, Root;
    system_v_shared_memory_of_others_is_not_there: User, Root;
    posix_shared_memory_of_others_is_not_there: User, Root;
    posix_message_queues_of_others_are_not_there: User, Root;
    // Credentials in files.
    no_store_of_an_agent_can_be_read: User, Root;
    no_store_of_keys_can_be_read: User, Root;
    no_store_of_a_cloud_can_be_read: User, Root;
    no_store_of_a_forge_or_registry_can_be_read: User, Root;
    no_browser_and_no_history_can_be_read: User, Root;
    dots_lead_to_no_secret: User, Root;
    another_spelling_leads_to_no_secret: User, Root;
    a_link_in_the_project_leads_to_no_secret: User, Root;
    a_link_that_was_there_before_leads_to_no_secret: User, Root;
    a_hard_link_made_inside_leads_to_no_secret: User, Root;
    a_hard_link_made_earlier_leads_to_no_secret: User, Root;
    a_rename_leads_to_no_secret: User, Root;
    the_root_of_a_process_leads_to_no_secret: User, Root;
    the_directory_of_a_process_leads_to_no_secret: User, Root;
    a_descriptor_of_a_process_leads_to_no_secret: User, Root;
    a_device_name_leads_to_no_secret: User, Root;
    a_copy_leads_to_no_secret: User, Root;
    a_bind_leads_to_no_secret: User, Root;
    searching_everything_finds_no_secret: User, Root;
    the_env_file_of_the_project_cannot_be_read: User, Root;
    what_a_link_named_env_leads_to_cannot_be_read: User, Root;
    another_name_of_the_env_file_cannot_be_read: User, Root;
    the_env_file_of_a_package_cannot_be_read: User, Root;
    a_closed_directory_hands_out_no_secret: User, Root;
    a_store_behind_a_link_cannot_be_read: User, Root;
    the_env_file_of_the_project_cannot_be_unmasked: User, Root;
    the_env_file_of_the_project_cannot_be_moved_or_linked: User, Root;
    the_env_file_above_the_project_cannot_be_read: User, Root;
    copies_in_shared_places_are_not_seen: User, Root;
    the_runtime_folder_of_the_user_is_not_seen: User, Root;
    root_cannot_read_the_shadow_file: Root;
    // Other people's authority.
    sockets_with_a_path_cannot_be_reached: User, Root;
    a_socket_in_home_cannot_be_reached: User, Root;
    a_socket_of_the_runtime_folder_cannot_be_reached: User, Root;
    the_agent_that_a_variable_names_cannot_be_asked: User, Root;
    a_link_to_a_socket_leads_nowhere: User, Root;
    abstract_sockets_cannot_be_reached: User, Root;
    sockets_of_the_host_are_not_listed: User, Root;
    a_neighbour_gets_no_signal: User, Root;
    limits_of_another_process_cannot_be_set: User, Root;
    a_child_cannot_type_into_a_terminal: User, Root;
    a_child_cannot_type_into_a_terminal_by_its_name: User, Root;
    set_uid_programs_can_gain_nothing: User, Root;
    // A way out.
    a_server_on_the_hosts_loopback_cannot_be_reached: User, Root;
    a_server_on_the_hosts_newer_loopback_cannot_be_reached: User, Root;
    a_server_of_the_host_cannot_be_reached_by_the_address_of_nobody: User, Root;
    a_datagram_to_the_host_does_not_arrive: User, Root;
    a_name_that_carries_data_does_not_arrive: User, Root;
    the_metadata_address_of_a_cloud_has_no_route: User, Root;
    a_cage_has_no_interface_but_its_own_loopback: User, Root;
    netlink_other_than_routes_is_not_there: User, Root;
    vsock_is_not_there: User, Root;
    packet_sockets_are_not_there: Root;
    raw_sockets_are_refused_to_root: Root;
    // A way out, beside network rules.
    no_rule_opens_the_hosts_loopback: User, Root;
    no_rule_opens_the_hosts_newer_loopback: User, Root;
    the_proxy_of_a_cage_does_not_lead_to_the_host: User, Root;
    a_request_to_the_proxy_of_a_cage_does_not_lead_to_the_host: User, Root;
    no_rule_lets_a_datagram_out: User, Root;
    no_rule_lets_a_name_carry_data_out: User, Root;
    no_rule_makes_a_way_to_the_metadata_address: User, Root;
    no_rule_shows_an_interface_of_the_host: User, Root;
    // A foothold.
    startup_files_of_shells_cannot_be_written: User, Root;
    no_key_can_be_authorized: User, Root;
    no_program_can_be_shadowed: User, Root;
    units_and_autostarts_cannot_be_planted: User, Root;
    the_users_git_config_cannot_be_planted: User, Root;
    settings_of_agents_in_home_cannot_be_planted: User, Root;
    settings_of_tools_in_home_cannot_be_planted: User, Root;
    an_existing_foothold_cannot_be_changed_or_removed: User, Root;
    the_users_caches_cannot_be_poisoned: User, Root;
    nothing_beside_the_project_can_be_written: User, Root;
    the_project_cannot_be_moved_away: User, Root;
    chmod_makes_no_set_uid_file: User, Root;
    fchmod_makes_no_set_uid_file: User, Root;
    openat_makes_no_set_uid_file: User, Root;
    openat2_makes_no_set_uid_file: User, Root;
    the_system_is_not_open_for_writing: Root;
    a_daemon_does_not_outlive_its_command: User, Root;
    a_daemon_does_not_outlive_a_launcher_that_is_asked_to_end: User, Root;
    a_daemon_does_not_outlive_a_launcher_that_is_killed: User, Root;
    // A foothold in the project.
    a_git_hook_cannot_be_planted: User, Root;
    the_git_config_cannot_be_changed: User, Root;
    a_common_folder_cannot_be_planted: User, Root;
    a_config_of_the_worktree_cannot_be_planted: User, Root;
    git_on_the_host_runs_nothing_from_a_changed_config: User, Root;
    git_on_the_host_runs_nothing_from_a_planted_bare_repository: User, Root;
    a_new_envrc_does_not_stay: User, Root;
    an_existing_envrc_cannot_be_changed: User, Root;
    what_a_link_in_a_foothold_leads_to_cannot_be_changed: User, Root;
    a_script_that_an_envrc_names_cannot_be_changed: User, Root;
    tasks_of_an_editor_do_not_stay: User, Root;
    settings_of_an_agent_do_not_stay: User, Root;
    // Keyward's own places.
    our_policy_cannot_be_changed: User, Root;
    our_policy_cannot_be_taken_away: User, Root;
    our_record_cannot_be_forged: User, Root;
    a_child_cannot_change_the_policy_of_the_project: User, Root;
    a_child_cannot_replace_the_policy_of_the_project: User, Root;
    a_child_cannot_take_the_mark_of_the_project_away: User, Root;
    // The kernel.
    a_user_namespace_cannot_be_unshared: User, Root;
    a_user_namespace_cannot_be_cloned: User, Root;
    clone3_is_not_there: User, Root;
    a_file_system_cannot_be_mounted: User, Root;
    a_namespace_cannot_be_entered: Root;
    io_uring_cannot_be_set_up: User, Root;
    bpf_is_refused: Root;
    perf_events_are_refused: User, Root;
    userfaultfd_is_refused: User, Root;
    keys_cannot_be_added: User, Root;
    tracing_oneself_is_refused: User, Root;
    kcmp_is_refused: User, Root;
    odd_personalities_are_refused: User, Root;
    a_file_has_no_handle: User, Root;
    watching_whole_mounts_is_refused: User, Root;
    the_kernel_log_is_closed: Root;
    the_32_bit_entry_is_closed: User, Root;
    a_child_has_no_capability: Root;
    a_device_cannot_be_made: Root;
    root_cannot_open_the_core_pattern_for_writing: Root;
    root_cannot_open_a_setting_of_memory_for_writing: Root;
    a_fork_bomb_is_bounded: User, Root;
    the_heap_is_bounded: User, Root;
    // Injection into the next program.
    the_dynamic_loader_takes_no_orders: User, Root;
    no_shell_is_told_what_to_run_first: User, Root;
    no_function_of_a_shell_passes: User, Root;
    python_takes_no_orders: User, Root;
    node_takes_no_orders: User, Root;
    perl_and_ruby_take_no_orders: User, Root;
    java_takes_no_orders: User, Root;
    git_takes_no_orders: User, Root;
    no_program_for_texts_is_named: User, Root;
}

/// What not every kernel has. Where it is there, the attack on everything judges it.
const NOT_EVERYWHERE: &[&str] = &[
    "the_crypto_interface_of_the_kernel_is_not_there",
    "the_x32_entry_is_closed",
    "a_module_cannot_be_loaded",
    "another_kernel_cannot_be_loaded",
];

#[test]
fn every_attack_has_its_test() {
    let all: BTreeSet<&str> = keyward_attack::names().collect();
    let tested: BTreeSet<&str> = LISTED.iter().chain(NOT_EVERYWHERE).copied().collect();
    assert_eq!(all, tested);
}

/// The answer is part of the wall: a program that hears that a call is not there uses an older one.
#[test]
fn calls_that_programs_can_do_without_are_answered_as_not_there() {
    for name in ["clone3_is_not_there", "io_uring_cannot_be_set_up", "openat2_makes_no_set_uid_file"] {
        let (_, found) = attacked(&Stage::user(), &["--only", name]);
        assert_eq!(found["attacks"][0]["why"], "function not implemented", "{name}");
    }
}

/// One run of everything: no attack changes the stage for the next.
fn everything_holds(who: Who) {
    let stage = Stage::new(who);
    let (code, found) = attacked(&stage, &[]);
    let rows = found["attacks"].as_array().unwrap();
    let leaked: Vec<&Value> = rows.iter().filter(|row| row["verdict"] == "leaked").collect();
    assert!(leaked.is_empty(), "{leaked:?}");
    assert_eq!(code, Some(0));
    assert_eq!(found["v"], 1);
    assert_eq!(rows.len(), keyward_attack::names().count());
    let held = rows.iter().filter(|row| row["verdict"] == "held").count();
    assert!(held >= 50, "only {held} could be tried");
    let expected = serde_json::json!({
        "attacks": held, "succeed_outside": held, "succeed_inside": 0, "not_tried": rows.len() - held
    });
    assert_eq!(found["summary"], expected);
    for row in rows {
        for key in ["class", "name", "tries", "kept_by", "kind", "outside", "inside", "verdict", "why"] {
            assert!(row[key].is_string(), "{key}: {row}");
        }
    }
}

#[test]
fn everything_at_once_holds_for_a_user() {
    everything_holds(Who::User);
}

#[test]
fn everything_at_once_holds_for_root() {
    everything_holds(Who::Root);
}

#[test]
fn the_table_fits_a_terminal_and_ends_with_the_count() {
    let stage = Stage::user();
    let output = stage.command(keyward()).args(["doctor", "--attack", "--only", LISTED[0]]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.lines().all(|line| line.chars().count() <= 100) && !text.contains('\u{1b}'), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("outside   inside  kept by"), "{text}");
    assert!(lines[1].ends_with("works     fails   wall: environment"), "{text}");
    assert_eq!(lines.last(), Some(&"1 attack: 1 worked outside, 0 inside; 0 not tried here"));
}

/// The folder of an attack that goes on: the neighbour stands in it.
fn folder_of(attack: u32) -> Option<PathBuf> {
    let children = std::fs::read_to_string(format!("/proc/{attack}/task/{attack}/children")).ok()?;
    let neighbour = children.split_whitespace().next()?;
    let folder = std::fs::read_link(format!("/proc/{neighbour}/cwd")).ok()?;
    folder.starts_with("/var/tmp").then_some(folder)
}

fn nothing_is_left_when(end: impl FnOnce(Pid)) -> Option<i32> {
    let stage = Stage::user();
    let mut attack = stage.beside(stage.command(keyward()).args(["doctor", "--attack"]).process_group(0));
    assert!(eventually(|| folder_of(attack.pid()).is_some()), "the attack did not start");
    let folder = folder_of(attack.pid()).unwrap();
    assert!(folder.exists());
    let _reads = attack.0.stdout.take().map(|stdout| std::thread::spawn(|| std::io::read_to_string(stdout)));
    end(Pid::from_raw(attack.pid().try_into().unwrap()).unwrap());
    let code = attack.0.wait().unwrap().code();
    assert!(!folder.exists());
    let name = folder.file_name().unwrap().to_str().unwrap();
    for place in ["/tmp", "/dev/shm", "/var/tmp", "/run"] {
        for kind in ["copy", "socket"] {
            assert!(!Path::new(place).join(format!("{name}.{kind}")).exists(), "{place} {kind}");
        }
    }
    assert!(eventually(|| support::processes_with(name).is_empty()));
    code
}

#[test]
fn an_attack_leaves_nothing_behind() {
    assert_eq!(nothing_is_left_when(|_| {}), Some(0));
}

/// As Ctrl-C does, which everybody in the foreground hears.
#[test]
fn an_attack_that_is_interrupted_leaves_nothing_behind() {
    let interrupt = |pid| rustix::process::kill_process_group(pid, Signal::INT).unwrap();
    assert_eq!(nothing_is_left_when(interrupt), Some(128 + 2));
}

#[test]
fn an_attack_that_is_asked_to_end_leaves_nothing_behind() {
    let ask = |pid| rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(nothing_is_left_when(ask), Some(128 + 15));
}
