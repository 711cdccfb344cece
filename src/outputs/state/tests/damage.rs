//! Files of the journal that are damaged, or those of something else.

use super::*;
use crate::outputs::state::journal_file::{line, parse};

/// The file of a journal with these entries.
fn file(entries: u8) -> (Exporter, Vec<u8>) {
    let mut exporter = Exporter::start();
    exporter.add(entries);
    let content = exporter.disk.get(&exporter.path("journal")).unwrap();
    (exporter, content)
}

/// Restarts with this file, and writes another entry. Returns the numbers before and after another restart.
fn continued(exporter: &mut Exporter, content: &[u8]) -> (Vec<u64>, Vec<u64>) {
    exporter.disk.put(&exporter.path("journal"), content);
    exporter.restart();
    let found = numbers(&exporter.journal);
    exporter.add(1);
    exporter.restart();
    (found, numbers(&exporter.journal))
}

#[test]
fn a_file_that_ends_anywhere_or_in_zeros_has_all_entries_before() {
    let (mut exporter, whole) = file(3);
    let lines: Vec<_> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    for length in lines[0].len()..=whole.len() {
        for zeros in [0, 1, whole.len() - length] {
            let complete = whole[..length].iter().filter(|byte| **byte == b'\n');
            let mut expected: Vec<_> = (1..complete.count() as u64).collect();
            let content = [&whole[..length], &vec![0; zeros]].concat();
            let parsed = parse(&content, &"journal 1".into()).unwrap();
            let found: Vec<_> = parsed.entries.iter().map(|it| it.number).collect();
            assert_eq!(found, expected, "{length} bytes and {zeros} zeros");
            if length % 16 == 0 || whole[length - 1] == b'\n' {
                let newest = exporter.journal.newest;
                let (found, after) = continued(&mut exporter, &content);
                assert_eq!(found, expected, "{length} bytes and {zeros} zeros");
                expected.push(newest + 1);
                assert_eq!(after, expected, "{length} bytes and {zeros} zeros");
            }
        }
    }
}

#[test]
fn a_damaged_byte_costs_the_entry_of_its_line() {
    let (_, whole) = file(3);
    let id = "journal 1".into();
    let lines: Vec<_> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let mut at = 0;
    for (number, line) in (0_u64..).zip(&lines) {
        for _ in 0..line.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x11;
            at += 1;
            let parsed = parse(&damaged, &id);
            if number == 0 {
                parsed.unwrap_err();
                continue;
            }
            let content = parsed.unwrap();
            let found: Vec<_> = content.entries.iter().map(|it| it.number).collect();
            // Without its line break, a line takes the next one with it.
            let is_line_break = whole[at - 1] == b'\n';
            let is_lost = |it: &u64| *it == number || is_line_break && *it == number + 1;
            let left: Vec<_> = (1..=3).filter(|it| !is_lost(it)).collect();
            assert_eq!(found, left, "byte {at}");
            assert_eq!(content.end, None, "byte {at}");
            // A lost entry at the end is known from the state.
            let last_lost = (1..=3).rfind(is_lost).unwrap();
            let expected = if last_lost == 3 { 0 } else { last_lost };
            assert_eq!(content.dropped, expected, "byte {at}");
        }
    }
}

#[test]
fn lines_whose_numbers_do_not_rise_are_left_out() {
    let (mut exporter, whole) = file(3);
    let lines: Vec<_> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    let zero = lines[1][9..lines[1].len() - 1].to_vec();
    let zero = String::from_utf8(zero)
        .unwrap()
        .replacen("\"number\":1", "\"number\":0", 1);
    let zero = line(zero.as_bytes());
    for order in [
        vec![0, 1, 1, 2, 3],
        vec![0, 1, 2, 1, 3],
        vec![0, 4, 1, 2, 3],
    ] {
        let all = [&lines[..], &[&zero[..]]].concat();
        let content: Vec<_> = order.iter().flat_map(|it| all[*it]).copied().collect();
        let newest = exporter.journal.newest;
        let (found, after) = continued(&mut exporter, &content);
        assert_eq!((found, after), (vec![1, 2, 3], vec![1, 2, 3, newest + 1]));
    }
}

#[test]
fn a_file_that_cannot_be_used_is_kept_and_the_numbers_go_on() {
    let header = |json: &str| line(json.as_bytes());
    let (_, whole) = file(2);
    let rows = [
        (Vec::new(), "the first line is invalid"),
        (vec![0; 100], "the first line is invalid"),
        (whole[1..].to_vec(), "the first line is invalid"),
        (header("[]"), "invalid length"),
        (
            header(r#"{"journal":"journal 1"}"#),
            "missing field `version`",
        ),
        (header(r#"{"version":2,"entries":7}"#), "newer version"),
        (
            header(r#"{"version":1,"journal":"journal 7","dropped":0}"#),
            "another journal",
        ),
        (
            [&whole[..], &vec![b'\n'; 4 << 20]].concat(),
            "larger than 4194304 bytes",
        ),
    ];
    for (content, expected) in rows {
        let (mut exporter, _) = file(2);
        let path = exporter.path("journal");
        exporter.disk.put(&path, content.clone());
        let why = journal_file::read(&mut exporter.disk, &path, &"journal 1".into()).unwrap_err();
        assert!(why.contains(expected) && !why.contains('\n'), "{why}");
        let seconds = at(exporter.now + 1).as_unix_seconds();
        assert_eq!(
            continued(&mut exporter, &content),
            (vec![], vec![3]),
            "{why}"
        );
        assert_eq!(&*exporter.journal.id, "journal 1");
        let kept = exporter.path(&format!("journal.unreadable-{seconds:.0}"));
        assert_eq!(exporter.disk.get(&kept).unwrap(), content);
        assert_eq!(exporter.disk.names().len(), 3);
    }
}
