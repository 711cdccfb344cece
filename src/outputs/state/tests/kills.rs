//! The process ends, or the machine loses power, at any step of the disk.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Op {
    Append {
        id: u8,
        is_own: bool,
        bytes: usize,
    },
    Write,
    /// After this number of steps of the disk.
    Fail(usize, Fault),
    Restart,
    DiscardForeign,
}

impl Exporter {
    fn run(&mut self, op: &Op) {
        match *op {
            Op::Append { id, is_own, bytes } => {
                let scope = [EventScope::Other, EventScope::Own][usize::from(is_own)];
                self.append(id, scope, bytes);
            }
            Op::Write => drop(self.write()),
            Op::Fail(steps, fault) => self.disk.fail_after(steps, fault),
            Op::Restart => self.restart(),
            Op::DiscardForeign => self.discard_foreign(),
        }
        if self.disk.is_killed() {
            self.restart();
        }
    }

    /// In the end the disk works. False if a fault was still to come.
    fn finish(&mut self) -> bool {
        let was_hit = self.disk.repair();
        assert!(self.write());
        let (oldest, before) = (self.journal.oldest(), numbers(&self.journal));
        self.restart();
        // An older one may still be in the file.
        let mut found = numbers(&self.journal);
        found.retain(|number| *number >= oldest || before.contains(number));
        assert_eq!(found, before);
        was_hit
    }
}

/// Appends and replacements, restarts, and the disk of another VM.
fn timeline() -> Vec<Op> {
    let append = || Op::Append {
        id: 1,
        is_own: true,
        bytes: 0,
    };
    let mut ops = vec![Op::Write, append(), append(), Op::Write, append()];
    ops.extend([Op::Write, Op::Restart, append(), Op::Write, Op::Restart]);
    ops.extend([append(), Op::DiscardForeign, Op::Write, append()]);
    ops.extend([Op::Write, append(), Op::Restart, append(), Op::Write]);
    ops
}

#[test]
fn kill_at_any_step_of_journal_and_state_loses_nothing_that_was_on_disk() {
    for fault in [Fault::Kill, Fault::PowerLoss, Fault::Error] {
        let mut steps = 0;
        loop {
            let mut exporter = Exporter::start();
            exporter.disk.fail_after(steps, fault);
            for op in timeline() {
                exporter.run(&op);
            }
            let was_hit = exporter.finish();
            // The state never counts what the journal does not have.
            let is_kill = fault != Fault::Error;
            assert!(
                !is_kill || exporter.journal.oldest() == 1,
                "{fault:?} at {steps}"
            );
            if !was_hit {
                break;
            }
            steps += 1;
        }
        assert!(steps > 70, "{fault:?}: {steps}");
    }
}

#[test]
fn kill_while_the_files_of_another_vm_are_set_aside_keeps_all_of_them() {
    let mut steps = 0;
    loop {
        let mut exporter = Exporter::start();
        exporter.tell(3);
        exporter.restart();
        exporter.discard_foreign();
        exporter.append_own(2);
        exporter.disk.fail_after(steps, Fault::Kill);
        exporter.write();
        let was_hit = exporter.disk.is_killed();
        exporter.restart();
        let is_old = exporter.journal.newest == 3 && exporter.journal.get(3).is_some();
        let names = exporter.disk.names();
        assert_eq!(
            exporter.lost_lines(),
            0,
            "killed at step {steps}: {names:?}"
        );
        let is_unmoved = names.contains(&"state.json".to_owned())
            && !names.iter().any(|name| name.contains("foreign"));
        assert_eq!(is_old, is_unmoved, "killed at step {steps}: {names:?}");
        exporter.append_own(1);
        exporter.finish();
        assert_eq!(exporter.lost_lines(), 0, "killed at step {steps}");
        if !was_hit {
            break;
        }
        steps += 1;
    }
    assert!(steps > 12, "{steps}");
}

/// The entries have a description of up to this length.
fn ops(bytes: usize) -> impl Strategy<Value = Vec<Op>> {
    let fault = prop_oneof![
        Just(Fault::Kill),
        Just(Fault::PowerLoss),
        Just(Fault::Error)
    ];
    let op = prop_oneof![
        8 => (0..4_u8, any::<bool>(), 0..bytes)
            .prop_map(|(id, is_own, bytes)| Op::Append { id, is_own, bytes }),
        8 => Just(Op::Write),
        3 => (0..24_usize, fault).prop_map(|(steps, fault)| Op::Fail(steps, fault)),
        2 => Just(Op::Restart),
        1 => Just(Op::DiscardForeign),
    ];
    proptest::collection::vec(op, 1..80)
}

fn nothing_is_lost(ops: &[Op]) {
    let mut exporter = Exporter::start();
    for op in ops {
        exporter.run(op);
    }
    exporter.finish();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_kills_and_errors_lose_nothing_that_was_on_disk(ops in ops(300)) {
        nothing_is_lost(&ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn random_kills_and_errors_lose_of_large_entries_only_what_has_no_space(ops in ops(500 << 10)) {
        nothing_is_lost(&ops);
    }
}
