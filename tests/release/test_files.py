"""Files are whole or not there, and a name is taken once."""

import errno
import os
import threading
from pathlib import Path

import pytest

from suffice.errors import StorageError
from suffice.releases.file import read_bounded, write_whole

WRITERS = 8


def race(path: Path) -> list[bytes]:
    """Let threads write different bytes to one name at once; return what those wrote who could."""
    begin, written, refused = threading.Barrier(WRITERS), [], []

    def write(data: bytes) -> None:
        begin.wait()
        try:
            write_whole(path, data, overwrite=False)
        except StorageError as error:
            refused.append(str(error))
        else:
            written.append(data)

    threads = [threading.Thread(target=write, args=(bytes([k]) * 10_000,)) for k in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == [f"{path} exists, and is not overwritten: write to another file."] * (
        WRITERS - 1
    )
    return written


def no_links(*_: Path) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.mark.parametrize("links", [True, False])
def test_of_many_writers_of_a_name_one_succeeds(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", no_links)
    for number in range(5):
        path = tmp_path / f"{number}"
        assert race(path) == [path.read_bytes()]
    assert sorted(p.name for p in tmp_path.iterdir()) == list("01234")


def test_a_file_keeps_its_bytes_unless_it_may_be_replaced(tmp_path):
    path = tmp_path / "x"
    write_whole(path, b"first", mode=0o600, overwrite=False)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(StorageError, match=r"x exists, and is not overwritten"):
        write_whole(path, b"second", overwrite=False)
    assert path.read_bytes() == b"first"
    write_whole(path, b"second")
    assert path.read_bytes() == b"second"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(StorageError, match="exists"):
        write_whole(path, b"third", overwrite=False)


@pytest.mark.parametrize("overwrite", [True, False])
def test_bytes_are_on_the_disk_before_they_have_their_name(tmp_path, monkeypatch, overwrite):
    path, synced, sync = tmp_path / "x", [], os.fsync

    def note(file: int) -> None:
        sync(file)
        synced.append((os.fstat(file).st_size, path.exists()))

    monkeypatch.setattr(os, "fsync", note)
    write_whole(path, b"all of it", overwrite=overwrite)
    assert synced == [(len(b"all of it"), False)]


def test_what_does_not_say_its_size_is_read_up_to_the_limit(tmp_path):
    """A pipe: more than the limit is refused, and no more of it is read than shows that."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for data, most in ((b"12345", 5), (b"123456", 5)):
        writer = threading.Thread(target=path.write_bytes, args=(data,))
        writer.start()
        if len(data) > most:
            with pytest.raises(StorageError, match="larger than 5 bytes"):
                read_bounded(path, most)
        else:
            assert read_bounded(path, most) == data
        writer.join()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_pipe_is_written_to_and_stays(tmp_path, overwrite):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # so that a writer does not wait
    write_whole(pipe, b"all of it", overwrite=overwrite)
    assert os.read(reader, 100) == b"all of it"
    os.close(reader)
    assert [path.is_fifo() for path in tmp_path.iterdir()] == [True]
