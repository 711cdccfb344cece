//! Passwords: hashes, which results are remembered for whom, and messages without them.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
};

use tokio::{sync::Semaphore, task::JoinSet};

use super::{
    passwords::{self, Passwords, check_hash},
    web_settings::Settings,
};
use crate::base::worker::Worker;

/// The hash of the password `a`, with a cost of 6.
const HASH: &str = "$2a$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe";

/// The hash of the password `dave123`, with a cost of 10.
const DAVE: &str = "$2y$10$2UXri9cIDdgeKjBo4Rlpx.U3ZLDV8X1IxKmsfOvhcM5oXQt/mLmXq";

fn passwords() -> Passwords {
    Passwords::new(Worker::start("test").unwrap()).unwrap()
}

fn users(names: &[&str]) -> BTreeMap<String, String> {
    let user = |name: &&str| ((*name).to_owned(), HASH.to_owned());
    names.iter().map(user).collect()
}

/// The thread checks nothing until the sender is dropped.
fn busy(passwords: &Passwords) -> mpsc::Sender<()> {
    let (release, busy) = mpsc::channel::<()>();
    let wait = move || busy.recv().unwrap_or_default();
    assert!(passwords.worker.submit(wait));
    release
}

/// The decision about credentials such as `alice:a`.
async fn accepts(
    passwords: &Passwords,
    users: &BTreeMap<String, String>,
    credentials: &str,
) -> Option<bool> {
    let (user, password) = credentials.split_once(':').unwrap();
    let turn = Semaphore::new(1);
    passwords.accepts(users, user, password.into(), &turn).await
}

#[tokio::test]
async fn passwords_are_verified_in_all_variants() {
    // Hashes from the tests of exporter-toolkit, of jBCrypt and of Openwall.
    for (text, password) in [
        (DAVE, "dave123"),
        (
            "$2a$06$DCq7YPn5Rq63x1Lad4cll.TV4S6ytwfsfvkgY8jIucDrjc8deX1s.",
            "",
        ),
        (HASH, "a"),
        // Further bytes than 72 have no effect.
        (
            "$2a$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui",
            "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789chars after 72",
        ),
    ] {
        let passwords = passwords();
        for variant in ["a", "b", "x", "y"] {
            let mut hash = text.to_owned();
            hash.replace_range(2..3, variant);
            assert_eq!(check_hash(&hash), Ok(()));
            let users = BTreeMap::from([("bob".to_owned(), hash)]);
            for (password, expected) in [(password, true), (&format!("x{password}"), false)] {
                let found = accepts(&passwords, &users, &format!("bob:{password}")).await;
                assert_eq!(found, Some(expected), "{password}");
            }
        }
    }
}

#[test]
fn credentials_are_read_as_go_does() {
    for (header, expected) in [
        (&b"Basic YTpi"[..], Some(("a", "b"))),
        (b"bAsIc YTpi", Some(("a", "b"))),
        (b"Basic OmI=", Some(("", "b"))),
        (b"Basic YTo=", Some(("a", ""))),
        (b"Basic YTpiOmM=", Some(("a", "b:c"))),
        (b"Basic \xff", None),
        (b"Basic YWI=", None),
        (b"Basic YTpi ", None),
        (b"Basic  YTpi", None),
        (b"Basic OmI", None),
        (b"Basic", None),
        (b"Bearer YTpi", None),
        (b"", None),
    ] {
        let expected = expected.map(|(user, password)| (user.to_owned(), password.into()));
        let found = passwords::credentials(header);
        assert_eq!(found, expected, "{}", header.escape_ascii());
    }
}

#[tokio::test]
async fn only_the_password_of_a_known_user_is_accepted_also_the_second_time() {
    let (passwords, users) = (passwords(), users(&["alice", "bob"]));
    for _ in 0..2 {
        for (text, expected) in [
            ("alice:a", true),
            ("bob:a", true),
            ("alice:b", false),
            ("alice:", false),
            // Each is compared with the hash of alice.
            ("carol:a", false),
            (":a", false),
            ("dave:b", false),
            ("Alice:a", false),
        ] {
            let found = accepts(&passwords, &users, text).await;
            assert_eq!(found, Some(expected), "{text}");
        }
    }
}

/// CVE-2022-46146: in a cache whose key was a concatenation, a user could log in as another one. All splits of one text
/// into a name and a password are different credentials.
#[tokio::test]
async fn no_two_users_share_a_result() {
    let (passwords, users) = (passwords(), users(&["a", "a:a", "aa", "aaa"]));
    for (user, password, expected) in [
        ("aa", "a", true),
        ("a", "aa", false),
        ("aaa", "a", true),
        ("a", "aaa", false),
        ("a", "a", true),
    ] {
        let found = passwords
            .accepts(&users, user, password.into(), &Semaphore::new(1))
            .await;
        assert_eq!(found, Some(expected), "{user} {password}");
    }
    // The name of a user that was added, with the hash and the password of another, is checked for itself.
    let fewer = self::users(&["a"]);
    assert_eq!(accepts(&passwords, &fewer, "aa:a").await, Some(false));
}

/// Two hundred wrong passwords, with the cheapest hash.
#[tokio::test]
async fn wrong_passwords_do_not_displace_right_ones() {
    let passwords = passwords();
    let cheap = HASH.replace("$06$", "$04$");
    let users = BTreeMap::from([
        ("alice".to_owned(), HASH.to_owned()),
        ("bob".to_owned(), cheap),
    ]);
    assert_eq!(accepts(&passwords, &users, "alice:a").await, Some(true));
    for number in 0..200 {
        let wrong = accepts(&passwords, &users, &format!("bob:{number}")).await;
        assert_eq!(wrong, Some(false));
    }
    // The thread is busy: only what is remembered can be decided.
    let release = busy(&passwords);
    assert_eq!(accepts(&passwords, &users, "alice:a").await, Some(true));
    let waiting = accepts(&passwords, &users, "bob:0");
    let waited = tokio::time::timeout(std::time::Duration::from_millis(50), waiting);
    assert!(
        waited.await.is_err(),
        "the oldest wrong passwords are forgotten"
    );
    drop(release);
}

#[tokio::test]
async fn equal_credentials_of_parallel_requests_are_checked_once() {
    let (passwords, users) = (passwords(), users(&["alice"]));
    let release = busy(&passwords);
    let mut logins: Vec<_> = (0..1_000)
        .map(|_| Box::pin(accepts(&passwords, &users, "alice:a")))
        .collect();
    // Each is polled once, so that all of them wait. More of them than the queue of the thread has places.
    for login in &mut logins {
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(login.as_mut().poll(cx)));
        assert!(polled.await.is_pending());
    }
    drop(release);
    let first = logins.remove(0);
    assert_eq!(first.await, Some(true));
    // The others need no more checks.
    let _release = busy(&passwords);
    for login in logins {
        assert_eq!(login.await, Some(true));
    }
}

#[tokio::test]
async fn guesses_from_one_address_delay_another_one_by_a_single_check() {
    let (passwords, users) = (Arc::new(passwords()), Arc::new(users(&["alice"])));
    let turn = || Arc::new(Semaphore::new(1));
    let (one, other) = (turn(), turn());
    let ended = Arc::new(AtomicUsize::new(0));
    let mut checks = JoinSet::new();
    let guesses = (0..20).map(|number| (format!("guess {number}"), one.clone()));
    for (password, turn) in guesses.chain([("a".to_owned(), other)]) {
        let (passwords, users) = (Arc::clone(&passwords), Arc::clone(&users));
        let ended = Arc::clone(&ended);
        checks.spawn(async move {
            let accepted = passwords.accepts(&users, "alice", password.into(), &turn);
            (accepted.await, ended.fetch_add(1, Relaxed))
        });
    }
    let results = checks.join_all().await;
    assert!(results.contains(&(Some(true), 1)), "{results:?}");
}

/// In the place of a section, in the place of a hash, and in forms that YAML gives a meaning.
#[test]
fn messages_do_not_contain_passwords_and_hashes() {
    let hashes = [
        "SECRET",
        "[SECRET]",
        "{SECRET: 1}",
        "*SECRET",
        "&SECRET",
        "&SECRET x",
        "!SECRET",
        "!SECRET x",
        "!!SECRET x",
        "!x!SECRET x",
        "%SECRET",
        "@SECRET",
        "`SECRET",
        "a: SECRET",
        "'SECRET",
        "\"SECRET\\q\"",
        "'a'SECRET",
        "|SECRET",
        ">SECRET",
        "{SECRET",
        "[SECRET",
        "SECRET, expected a",
    ];
    let sections = [
        "bob:SECRET",
        "[SECRET]",
        "SECRET invalid type: x, expected SECRET",
    ];
    let texts = hashes.map(|hash| format!("basic_auth_users:\n  bob: {hash}\n"));
    let sections = sections.map(|section| format!("basic_auth_users: {section}\n"));
    let key = "tls_server_config:\n  key: SECRET\n".to_owned();
    for text in texts.into_iter().chain(sections).chain([key]) {
        let error = Settings::parse(&text, Path::new("")).err().expect(&text);
        assert!(!error.contains("SECRET"), "{text}{error}");
    }
}
