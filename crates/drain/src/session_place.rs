//! The place of a session: what the file system under it means for the calls that write there and for its records after a
//! SIGKILL. The log says it once for each start, where it is not what a program may expect.

use std::path::Path;

/// The line about a session on a disk.
#[cfg(any(target_os = "linux", target_os = "android"))]
const ON_DISK: &str = "on a disk: log calls wait when that disk does; a directory in memory, such as one in /dev/shm, keeps them from it";

/// The line about a session in memory that ends with a container.
#[cfg(any(target_os = "linux", target_os = "android"))]
const IN_CONTAINER: &str = "in the /dev/shm of a container: when the container ends by SIGKILL, the last milliseconds of the log are lost with it; a run directory (run_dir) on a volume keeps them, and so does an agent on the host";

/// Returns the line that a log has about the place of its session; `None` where the place is memory that outlives the
/// program.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn describe_place(session: &Path) -> Option<String> {
    let what = match () {
        () if !is_memory(session) => ON_DISK,
        () if is_in_container(session) => IN_CONTAINER,
        () => return None,
    };
    Some(format!("the session is in {}, {what}", session.display()))
}

/// Elsewhere nothing is known about it.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn describe_place(_session: &Path) -> Option<String> {
    None
}

/// Returns whether a file system has no disk. What cannot be asked is taken for memory, so that nothing false is said.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_memory(path: &Path) -> bool {
    // tmpfs, ramfs and hugetlbfs, as `statfs(2)` numbers them.
    const MEMORY: [u64; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];
    rustix::fs::statfs(path).map_or(true, |found| {
        // The width and the sign of the number depend on the architecture; its lower half does not.
        #[allow(clippy::unnecessary_cast, reason = "the type depends on the architecture")]
        let kind = found.f_type as u64 & 0xffff_ffff;
        MEMORY.contains(&kind)
    })
}

/// Returns whether a session lies in a `/dev/shm` that a container has for itself, as Docker, Podman and Kubernetes
/// make it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_in_container(session: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    if !session.starts_with(SHM) {
        return false;
    }
    let Ok(found) = session.metadata() else {
        return false;
    };
    let device = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // A process that shares the numbers of the host sees the host's first process, if it may look.
    let is_of_first = || std::fs::metadata("/proc/1/root/dev/shm").map(|first| first.dev() == found.dev());
    has_own_shm(&mounts, device) && (has_own_process_numbers() || matches!(is_of_first(), Ok(false)))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const SHM: &str = "/dev/shm";

/// Returns whether the processes of a namespace other than that of the host are numbered together.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn has_own_process_numbers() -> bool {
    // The kernel gives the first namespace this number on every machine.
    const FIRST: &str = "pid:[4026531836]";
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name != Path::new(FIRST))
}

/// Returns whether the mounts of a process (`/proc/self/mountinfo`) have a `/dev/shm` on this device that was made for
/// a container: a whole file system in memory, with the name that the makers of containers give it. One that is part of
/// the host's, or a volume, has another root or another name.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn has_own_shm(mounts: &str, device: (u32, u32)) -> bool {
    let device = format!("{}:{}", device.0, device.1);
    mounts.lines().any(|mount| {
        let (Some(place), Some(origin)) = (mount.split(" - ").next(), mount.split(" - ").nth(1)) else {
            return false;
        };
        let place: Vec<&str> = place.split(' ').skip(2).take(3).collect();
        place == [device.as_str(), "/", SHM] && origin.starts_with("tmpfs shm ")
    })
}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_recognised_by_a_shared_memory_of_its_own() {
        let docker =
            "620 615 0:54 / /dev/shm rw,nosuid,nodev,noexec,relatime - tmpfs shm rw,size=65536k,inode64";
        let kubernetes = "1201 1190 0:88 / /dev/shm rw,relatime master:3 - tmpfs shm rw,size=65536k";
        assert!(has_own_shm(
            &format!("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n{docker}\n"),
            (0, 54)
        ));
        assert!(has_own_shm(kubernetes, (0, 88)));
    }

    #[test]
    fn shared_memory_of_the_host_and_volumes_are_no_containers_own() {
        let host = "25 24 0:23 / /dev/shm rw,nosuid,nodev shared:4 - tmpfs tmpfs rw,inode64";
        let part_of_host = "630 615 0:23 /shop /dev/shm rw,relatime - tmpfs shm rw";
        let elsewhere = "640 615 0:54 / /run/shm rw,relatime - tmpfs shm rw";
        for mounts in [host, part_of_host, elsewhere, "", "a line of another kernel"] {
            assert!(!has_own_shm(mounts, (0, 23)), "{mounts}");
        }
        let other_device = "620 615 0:54 / /dev/shm rw - tmpfs shm rw,size=65536k";
        assert!(!has_own_shm(other_device, (0, 60)));
    }

    #[test]
    fn shared_memory_is_no_disk_and_proc_is_none_that_keeps_files_in_memory() {
        assert!(!is_memory(Path::new("/proc")));
        assert!(is_memory(Path::new("/there/is/nothing")));
    }
}
