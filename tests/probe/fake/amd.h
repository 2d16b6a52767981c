/* What the fakes of AMD's libraries agree on: the card's name, its place on the bus, and the form
 * of a code object that the fake hipRTC makes and the fake HIP runs. */
#ifndef FAKE_AMD_H
#define FAKE_AMD_H

#define FAKE_GFX "gfx1100"
#define FAKE_BUS "0000:03:00.0"
enum { FAKE_BDF = 3 << 8 };
#define FAKE_OBJECT "FAKE CODE OBJECT FOR " // and the gfx name

#endif
