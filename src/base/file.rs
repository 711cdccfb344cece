//! Files that must survive a crash: the file system as a trait, so that tests can fail each step, and atomic
//! replacement.

use std::{
    fmt,
    fs::{self, TryLockError},
    io::{self, Read, Write},
    path::Path,
};

use crate::base::system;

/// The operations of the state directory. The process may be killed after any of them.
pub trait Filesystem: fmt::Debug + Send {
    /// Reads a file of at most `max` bytes. A larger one is [`io::ErrorKind::FileTooLarge`], and nothing of it is read.
    fn read(&mut self, path: &Path, max: u64) -> io::Result<Vec<u8>>;
    /// Writes and syncs a new file with mode 0600 in place of any other one. A failure may leave a part of it.
    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()>;
    /// Appends to a file of exactly this length, and syncs it. A failure may leave a part of the lines.
    fn append(&mut self, path: &Path, length: u64, lines: &[u8]) -> io::Result<()>;
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&mut self, path: &Path) -> io::Result<()>;
    /// Makes created, renamed and removed names in a directory durable.
    fn sync_directory(&mut self, directory: &Path) -> io::Result<()>;
}

#[derive(Debug, Clone, Copy, Default)]
pub struct OsFilesystem;

impl Filesystem for OsFilesystem {
    fn read(&mut self, path: &Path, max: u64) -> io::Result<Vec<u8>> {
        read_regular(&system::private_file().read(true).open(path)?, max)
    }

    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        create(path, content)?.sync_all()
    }

    fn append(&mut self, path: &Path, length: u64, lines: &[u8]) -> io::Result<()> {
        let mut file = system::private_file().append(true).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() != length {
            return Err(io::Error::other("changed by another program"));
        }
        file.write_all(lines)?;
        file.sync_data()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&mut self, directory: &Path) -> io::Result<()> {
        system::sync_directory(directory)
    }
}

/// Writes a new file with mode 0600 in place of any other one.
pub(crate) fn create(path: &Path, content: &[u8]) -> io::Result<fs::File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = system::private_file()
        .write(true)
        .create_new(true)
        .open(path)?;
    file.write_all(content)?;
    Ok(file)
}

fn read_regular(file: &fs::File, max: u64) -> io::Result<Vec<u8>> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, "too large");
    if metadata.len() > max {
        return Err(too_large());
    }
    let mut content = Vec::new();
    // It may grow meanwhile.
    let read = file.take(max.saturating_add(1)).read_to_end(&mut content)?;
    if read as u64 > max {
        return Err(too_large());
    }
    Ok(content)
}

/// Bytes of a file with a key, a password or a token.
pub(crate) const MAX_SECRET_BYTES: u64 = 64 << 10;
/// Bytes of a file with certificates: the bundle of a system has some 200 kB.
pub(crate) const MAX_CERTIFICATES_BYTES: u64 = 1 << 20;

/// Reads a regular file that an operator wrote, or a symbolic link to one, without its byte order mark. It never waits
/// for the other end of a FIFO. The error continues a sentence that begins with the path.
pub(crate) fn read_given(path: &Path, max: u64) -> Result<Vec<u8>, String> {
    let opened = system::readable_file().open(path);
    let read = opened.and_then(|file| read_regular(&file, max));
    let mut content = read.map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => format!("is larger than {max} bytes"),
        io::ErrorKind::Other => "is not a regular file".to_owned(),
        _ => format!("cannot be read: {error}"),
    })?;
    if content.starts_with(BYTE_ORDER_MARK) {
        content.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(content)
}

/// Editors of Windows put it before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Replaces a file as a whole: after a crash it has the old content or the new, and once this returns, the new.
pub fn replace(files: &mut dyn Filesystem, path: &Path, content: &[u8]) -> io::Result<()> {
    let draft = path.with_added_extension("new");
    let written = files
        .write(&draft, content)
        .and_then(|()| files.rename(&draft, path));
    if let Err(error) = written {
        // On a full disk a part of the file would take space from others. The next replacement overwrites it otherwise.
        files.remove(&draft).ok();
        return Err(error);
    }
    match path.parent() {
        Some(directory) => files.sync_directory(directory),
        None => Ok(()),
    }
}

/// Creates a lock file and locks it until it is closed. The file stays.
pub(crate) fn lock(path: &Path) -> Result<fs::File, TryLockError> {
    let mut options = system::private_file();
    let options = options.create(true).truncate(false).write(true);
    let file = options.open(path).map_err(TryLockError::Error)?;
    file.try_lock()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replace_leaves_the_new_content_and_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        for content in [&b"old and long"[..], b"new"] {
            replace(&mut OsFilesystem, &path, content).unwrap();
            assert_eq!(fs::read(&path).unwrap(), content);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_larger_than_the_bound_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        let file = fs::File::create(&path).unwrap();
        for (length, expected) in [(7, Ok(7)), (8, Ok(8)), (9, Err(())), (2 << 30, Err(()))] {
            file.set_len(length).unwrap();
            let read = OsFilesystem.read(&path, 8);
            let is_too_large =
                |error: io::Error| assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
            assert_eq!(read.map(|it| it.len()).map_err(is_too_large), expected);
        }
    }

    #[cfg(unix)]
    #[test]
    fn files_are_for_their_owner_only_and_symbolic_links_are_not_followed() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("a").join("b");
        system::make_private_directory(&directory).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory), 0o700);
        let (path, other) = (directory.join("state.json"), folder.path().join("other"));
        OsFilesystem.write(&other, b"of someone else").unwrap();
        for name in ["state.json", "state.json.new"] {
            symlink(&other, directory.join(name)).unwrap();
        }
        OsFilesystem.read(&path, 100).unwrap_err();
        OsFilesystem.append(&path, 15, b"ours").unwrap_err();
        replace(&mut OsFilesystem, &path, b"ours").unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"of someone else");
        assert_eq!(OsFilesystem.read(&path, 100).unwrap(), b"ours");
        assert!(path.symlink_metadata().unwrap().is_file());
        assert_eq!(mode(&path), 0o600);
    }

    #[cfg(unix)]
    #[test]
    fn a_fifo_is_an_error_and_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        let error = OsFilesystem.read(&path, 100).unwrap_err();
        assert_eq!(error.to_string(), "not a regular file");
        OsFilesystem.append(&path, 0, b"line\n").unwrap_err();
        for path in [&path, folder.path(), Path::new("/dev/zero")] {
            let error = read_given(path, 100).unwrap_err();
            assert_eq!(error, "is not a regular file", "{}", path.display());
        }
    }

    #[test]
    fn lines_are_appended_only_to_a_regular_file_of_the_expected_length() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let error = OsFilesystem.append(&path, 0, b"one\n").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        OsFilesystem.write(&path, b"one\n").unwrap();
        OsFilesystem.append(&path, 4, b"two\n").unwrap();
        for length in [0, 4, 7, 9] {
            OsFilesystem.append(&path, length, b"three\n").unwrap_err();
        }
        OsFilesystem.append(folder.path(), 0, b"").unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\n");
    }

    #[test]
    fn a_given_file_is_read_without_its_byte_order_mark_up_to_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        replace(&mut OsFilesystem, &path, "\u{feff}token".as_bytes()).unwrap();
        assert_eq!(read_given(&path, 8).unwrap(), b"token");
        assert_eq!(read_given(&path, 7).unwrap_err(), "is larger than 7 bytes");
        let absent = read_given(&folder.path().join("absent"), 8).unwrap_err();
        assert!(absent.starts_with("cannot be read: "), "{absent}");
    }

    #[test]
    fn failed_replace_keeps_the_old_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        replace(&mut OsFilesystem, &path, b"old").unwrap();
        fs::create_dir(folder.path().join("state.json.new")).unwrap();
        replace(&mut OsFilesystem, &path, b"new").unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }
}
