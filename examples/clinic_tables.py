"""Write the tables of an invented network of clinics into the folder `clinic`.

The README and the how-to pages use these tables. Nobody in them exists: the program draws the
measurements at random, so that they resemble the breast cancer data of scikit-learn.
"""

from pathlib import Path

from suffice.demo.story import clinic_network, write_tables

for path in write_tables(clinic_network(), Path("clinic")):
    print(path)
