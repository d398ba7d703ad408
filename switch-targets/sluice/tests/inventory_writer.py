"""A controller that writes one generation of the inventory after another until it is killed.

python inventory_writer.py ADDRESS FOLDER_OF_CERTIFICATES ELECTION_ID ATOMICITY FIRST_GENERATION
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

from inventory_entries import generation, updates
from raw_client import Code, Credentials, RawClient


async def main(address: str, folder: str, election_id: str, atomicity: str, first: str) -> None:
    async with RawClient(address, Credentials(Path(folder))) as client:
        await client.bid(int(election_id))
        for at in itertools.count(int(first)):
            codes = await client.write(*updates(generation(at), generation(at + 1)), atomicity=atomicity)
            assert set(codes) == {Code.OK}
            if at == int(first):
                print("written", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
