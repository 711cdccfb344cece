//! Random journals, receivers and restarts, with an observer that only sees the requests and what is counted.

use proptest::prelude::*;

use super::*;

/// What the receiver does with an entry while it can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Good,
    Refused,
    Failing,
}

#[derive(Debug, Clone)]
enum Step {
    /// Entries with so many records and KiB.
    Append(Vec<(u64, usize, Content)>),
    /// A request, during which entries may be added.
    Request {
        is_up: bool,
        during: Vec<(u64, usize, Content)>,
    },
    Save,
    Restart {
        is_in_flight: bool,
    },
    ConfirmOwner,
}

fn entries() -> impl Strategy<Value = Vec<(u64, usize, Content)>> {
    let content = prop_oneof![
        8 => Just(Content::Good),
        1 => Just(Content::Refused),
        1 => Just(Content::Failing),
    ];
    let size = prop_oneof![6 => Just(0_usize), 2 => Just(100), 1 => Just(450)];
    proptest::collection::vec((0..3_u64, size, content), 0..4)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => entries().prop_map(Step::Append),
        10 => (prop::bool::weighted(0.6), entries())
            .prop_map(|(is_up, during)| Step::Request { is_up, during }),
        2 => Just(Step::Save),
        1 => any::<bool>().prop_map(|is_in_flight| Step::Restart { is_in_flight }),
        2 => Just(Step::ConfirmOwner),
    ]
}

/// What happened to the entries, as an observer of the requests and drops writes it down.
struct Observer {
    sender: Sender,
    contents: BTreeMap<u64, (u64, Content)>,
    /// Accepted or dropped, as far as this process knows.
    done: BTreeSet<u64>,
    saved: (SavedCursor, BTreeSet<u64>),
    /// The requests of this process.
    requests: Vec<(Vec<u64>, RequestResult)>,
    is_owned: bool,
}

impl Observer {
    fn new() -> Self {
        Self {
            sender: Sender::new(&[]),
            contents: BTreeMap::new(),
            done: BTreeSet::new(),
            saved: (SavedCursor::default(), BTreeSet::new()),
            requests: Vec::new(),
            is_owned: true,
        }
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Append(entries) => self.append(entries),
            Step::Request { is_up, during } => self.request(*is_up, during),
            Step::Save => self.saved = (self.sender.saved(), self.done.clone()),
            Step::Restart { is_in_flight } => self.restart(*is_in_flight),
            Step::ConfirmOwner => {
                self.sender.confirm_owner();
                self.is_owned = true;
            }
        }
        let missing = |(number, (records, _)): (&u64, &(u64, _))| {
            (!self.done.contains(number)).then_some(*records)
        };
        let unsent: u64 = self.contents.iter().filter_map(missing).sum();
        assert_eq!(self.sender.cursor.unsent(), unsent);
    }

    fn kept(&self, number: u64) -> bool {
        self.sender.journal.get(number).is_some()
    }

    fn append(&mut self, entries: &[(u64, usize, Content)]) {
        for (records, kib, content) in entries {
            let before: Vec<_> = self.contents.keys().copied().collect();
            let in_flight = numbers(&self.sender.cursor.in_flight);
            let lost = self.sender.add([entry(*records, kib << 10)]);
            let newest = self.sender.journal.newest;
            self.contents.insert(newest, (*records, *content));
            let fallen = before.into_iter().filter(|number| {
                !self.kept(*number) && !self.done.contains(number) && !in_flight.contains(number)
            });
            let fallen: Vec<_> = fallen.collect();
            let expected: u64 = fallen.iter().map(|it| self.contents[it].0).sum();
            assert_eq!(lost, expected);
            self.done.extend(fallen);
        }
    }

    fn answer(&self, sent: &[u64]) -> RequestResult {
        let has = |content| sent.iter().any(|number| self.contents[number].1 == content);
        match () {
            () if has(Content::Refused) => REJECTED,
            () if has(Content::Failing) => MayBeContent,
            () => Accepted,
        }
    }

    fn request(&mut self, is_up: bool, during: &[(u64, usize, Content)]) {
        let entries = self.sender.cursor.next_entries();
        let sent = numbers(&entries);
        if sent.is_empty() {
            return;
        }
        self.check_request(&entries);
        self.append(during);
        let result = if is_up {
            self.answer(&sent)
        } else {
            Unavailable
        };
        self.requests.push((sent.clone(), result));
        let dropped = self.sender.apply(result);
        for (number, reason) in &dropped {
            let is_right = match reason {
                DropReason::SpoolFull => result != Accepted && !self.kept(*number),
                _ if result == REJECTED => sent == [*number],
                _ => self.proven_failures(*number) >= 8,
            };
            assert!(is_right, "{number} {reason:?} {:?}", self.requests);
        }
        for (number, _) in dropped {
            assert!(self.done.insert(number), "counted twice");
        }
        if result == Accepted {
            assert!(
                sent.into_iter().all(|it| self.done.insert(it)),
                "sent twice"
            );
        }
    }

    fn check_request(&self, entries: &[Arc<Entry>]) {
        let sent = numbers(entries);
        assert!(sent.is_sorted() && sent.iter().all(|it| !self.done.contains(it)));
        assert!(entries.iter().all(|it| records(it) > 0));
        let bytes: usize = entries.iter().map(|it| it.bytes).sum();
        assert!(sent.len() == 1 || bytes <= 256 << 10);
        let first = self.sender.journal.first;
        assert!(self.is_owned || sent.iter().all(|number| *number >= first));
        let oldest = self.contents.keys().find(|number| {
            !self.done.contains(number) && self.contents[number].0 > 0 && self.kept(**number)
        });
        if self.is_owned && self.requests.iter().all(|it| it.1 == Accepted) {
            assert_eq!(sent.first(), oldest, "in order where nothing fails");
        }
    }

    /// Failures of the entry since whose predecessor another one was accepted.
    fn proven_failures(&self, number: u64) -> usize {
        let mut proven = 0;
        let (mut has_failed, mut is_proof) = (false, false);
        for (sent, result) in &self.requests {
            match result {
                Accepted => is_proof = true,
                _ if sent.contains(&number) => {
                    proven += usize::from(has_failed && is_proof);
                    (has_failed, is_proof) = (true, false);
                }
                _ => {}
            }
        }
        proven
    }

    /// The process is killed, perhaps while it sends, and begins anew from the state that was saved last.
    fn restart(&mut self, is_in_flight: bool) {
        if is_in_flight {
            self.sender.cursor.next_entries();
        }
        let journal = restored(&self.sender.journal);
        let (saved, done) = self.saved.clone();
        self.sender = Sender::restored(journal, Some(&saved));
        self.done = done;
        let contents = self.contents.keys().copied();
        let fallen: Vec<_> = contents.filter(|number| !self.kept(*number)).collect();
        self.done.extend(fallen);
        self.requests.clear();
        self.is_owned = false;
    }

    /// The receiver is up, and stays it.
    fn finish(&mut self) {
        self.run(&Step::ConfirmOwner);
        for _ in 0..2 * self.contents.len() {
            self.request(true, &[]);
        }
        for (number, (records, content)) in &self.contents {
            let is_done = *records == 0 || self.done.contains(number);
            assert!(is_done || *content == Content::Failing, "{number}");
        }
        // Others are accepted, so what always fails is dropped.
        let failing = self.contents.len() - self.done.len();
        for _ in 0..=9 * failing {
            self.append(&[(1, 0, Content::Good)]);
            self.request(true, &[]);
            self.request(true, &[]);
        }
        assert_eq!(self.sender.next(), [0; 0]);
        assert_eq!(self.sender.cursor.unsent(), 0);
        let saved = self.sender.saved();
        assert_eq!(saved, self.sender.saved_after(self.sender.journal.newest));
        assert!(saved.ahead.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn each_entry_is_accepted_or_counted_as_dropped_once(
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let mut observer = Observer::new();
        for step in &steps {
            observer.run(step);
        }
        observer.finish();
    }
}
