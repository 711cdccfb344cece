//! What Hyper-V tells its guest by data exchange (KVP): the name of the physical host. On Linux, `hv_kvp_daemon` writes it
//! to a file of records: <https://github.com/torvalds/linux/blob/master/tools/hv/hv_kvp_daemon.c>. On Windows it is in
//! the registry.

use std::{
    fs, io,
    path::Path,
    time::{Duration, SystemTime},
};

use super::{file, system};

/// The values from outside the guest (`KVP_POOL_AUTO_EXTERNAL`).
const POOL_FILE: &str = "/var/lib/hyperv/.kvp_pool_3";
/// The second one where the first is missing.
const HOST_NAMES: [&str; 2] = ["PhysicalHostNameFullyQualified", "PhysicalHostName"];
/// Bytes of the key and the value of a record, padded with NUL.
const KEY_BYTES: usize = 512;
const VALUE_BYTES: usize = 2_048;
/// 400 records; Hyper-V has about ten.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Linux computes the time of the boot from both clocks, so that it moves by each pause of the VM.
const BOOT_MARGIN: Duration = Duration::from_mins(1);

/// The name of the physical host, from this file or from where the operating system has it. `None` if it is not known:
/// nothing writes it, or it is that of an earlier boot.
///
/// # Errors
/// When it cannot be read now, as while the daemon writes the file.
pub(crate) fn physical_host(pool_file: Option<&Path>) -> Result<Option<String>, io::Error> {
    #[cfg(windows)]
    if pool_file.is_none() {
        let key = windows_registry::LOCAL_MACHINE
            .open(r"SOFTWARE\Microsoft\Virtual Machine\Guest\Parameters");
        let host = key
            .ok()
            .and_then(|key| host_name(|name| key.get_string(name).ok()));
        return Ok(host);
    }
    let pool_file = pool_file.unwrap_or(Path::new(POOL_FILE));
    read(pool_file, system::booted_at())
}

fn read(pool_file: &Path, booted_at: Option<SystemTime>) -> io::Result<Option<String>> {
    let Ok(written_at) = fs::metadata(pool_file).and_then(|it| it.modified()) else {
        return Ok(None);
    };
    let oldest = booted_at.and_then(|booted_at| booted_at.checked_sub(BOOT_MARGIN));
    if oldest.is_some_and(|oldest| written_at < oldest) {
        return Ok(None);
    }
    let pool = file::read_given(pool_file, MAX_FILE_BYTES).map_err(io::Error::other)?;
    let records = pool.chunks_exact(KEY_BYTES + VALUE_BYTES);
    let records = records.filter_map(|record| record.split_at_checked(KEY_BYTES));
    let host = host_name(|name| {
        let mut records = records.clone();
        let (_, value) = records.find(|(key, _)| text(key) == Some(name))?;
        text(value).map(str::to_owned)
    });
    host.map(Some)
        .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Replaces a pool file by one that has this physical host alone.
pub(crate) fn write(pool_file: &Path, host: &str) -> io::Result<()> {
    let [name, _] = HOST_NAMES;
    let file = file::create(pool_file, &record(name.as_bytes(), host.as_bytes()))?;
    system::make_readable_for_all(&file)
}

fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut record = key.to_vec();
    record.resize(KEY_BYTES, 0);
    record.extend(value);
    record.resize(KEY_BYTES + VALUE_BYTES, 0);
    record
}

/// The text before the first NUL.
fn text(padded: &[u8]) -> Option<&str> {
    let text = padded.split(|byte| *byte == 0).next()?;
    std::str::from_utf8(text).ok()
}

fn host_name(value: impl Fn(&str) -> Option<String>) -> Option<String> {
    let values = HOST_NAMES.into_iter().filter_map(value);
    let mut names = values.map(|value| value.trim().to_owned());
    names.find(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tempfile::TempDir;

    use super::*;

    fn pool(content: &[u8]) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        file::create(&path, content).unwrap();
        (folder, path)
    }

    fn host(records: &[Vec<u8>]) -> Option<String> {
        let (_folder, path) = pool(&records.concat());
        physical_host(Some(&path)).ok()?
    }

    #[test]
    fn fully_qualified_name_of_the_physical_host_comes_first() {
        let other = record(b"VirtualMachineName", b"web_0");
        let short = record(b"PhysicalHostName", b"AMS1");
        let full = record(b"PhysicalHostNameFullyQualified", b"AMS1.example.net");
        assert_eq!(host(&[other.clone(), short.clone()]).unwrap(), "AMS1");
        let all = [other, short.clone(), full];
        assert_eq!(host(&all).unwrap(), "AMS1.example.net");
        let empty = record(b"PhysicalHostNameFullyQualified", b" ");
        assert_eq!(host(&[empty, short]).unwrap(), "AMS1");
    }

    #[test]
    fn damaged_pool_file_has_no_host_or_that_of_its_whole_records() {
        let short = record(b"PhysicalHostName", b"AMS1");
        for records in [
            vec![],
            vec![b"PhysicalHostName".to_vec()],
            vec![short[..2_559].to_vec()],
            vec![b"x".to_vec(), short.clone()],
            vec![record(b"PhysicalHostName", b"\xff\xfe")],
            vec![record(b"PhysicalHostName", b"")],
            vec![b"x".repeat(1_048_577)],
        ] {
            assert_eq!(host(&records), None);
        }
        let value = host(&[record(b"PhysicalHostName", &[b'x'; VALUE_BYTES])]);
        assert_eq!(value.unwrap().len(), VALUE_BYTES);
        assert_eq!(host(&[short, b"torn".to_vec()]).unwrap(), "AMS1");
        assert!(matches!(
            physical_host(Some(Path::new("no/such/pool"))),
            Ok(None)
        ));
    }

    #[test]
    fn pool_file_of_an_earlier_boot_is_ignored() {
        let (_folder, path) = pool(&record(b"PhysicalHostName", b"AMS1"));
        let written_at = fs::metadata(&path).unwrap().modified().unwrap();
        let host = |seconds| {
            let booted_at = written_at + Duration::from_secs(seconds);
            read(&path, Some(booted_at)).unwrap()
        };
        assert!(host(0).is_some() && host(60).is_some());
        assert_eq!(host(61), None);
        assert!(read(&path, None).unwrap().is_some());
        let (_folder, while_it_is_written) = pool(b"");
        assert!(read(&while_it_is_written, None).is_err());
    }
}
