"""ADE20K, the 150 classes of the scene parsing challenge of 2016, with 0 for everything else."""

from deeplab.datasets.descriptor import DatasetDescriptor, colors_in, names_in
from deeplab.registry import register

# The names of the classes 1 to 150 as the full release writes them: each with its synonyms, separated by semicolons.
_NAMES = """
wall; building, edifice; sky; floor, flooring; tree; ceiling; road, route; bed; windowpane, window; grass; cabinet;
sidewalk, pavement; person, individual, someone, somebody, mortal, soul; earth, ground; door, double door; table;
mountain, mount; plant, flora, plant life; curtain, drape, drapery, mantle, pall; chair; car, auto, automobile,
machine, motorcar; water; painting, picture; sofa, couch, lounge; shelf; house; sea; mirror; rug, carpet, carpeting;
field; armchair; seat; fence, fencing; desk; rock, stone; wardrobe, closet, press; lamp; bathtub, bathing tub, bath,
tub; railing, rail; cushion; base, pedestal, stand; box; column, pillar; signboard, sign; chest of drawers, chest,
bureau, dresser; counter; sand; sink; skyscraper; fireplace, hearth, open fireplace; refrigerator, icebox; grandstand,
covered stand; path; stairs, steps; runway; case, display case, showcase, vitrine; pool table, billiard table,
snooker table; pillow; screen door, screen; stairway, staircase; river; bridge, span; bookcase; blind, screen;
coffee table, cocktail table; toilet, can, commode, crapper, pot, potty, stool, throne; flower; book; hill; bench;
countertop; stove, kitchen stove, range, kitchen range, cooking stove; palm, palm tree; kitchen island; computer,
computing machine, computing device, data processor, electronic computer, information processing system; swivel chair;
boat; bar; arcade machine; hovel, hut, hutch, shack, shanty; bus, autobus, coach, charabanc, double-decker, jitney,
motorbus, motorcoach, omnibus, passenger vehicle; towel; light, light source; truck, motortruck; tower; chandelier,
pendant, pendent; awning, sunshade, sunblind; streetlight, street lamp; booth, cubicle, stall, kiosk; television,
television receiver, television set, tv, tv set, idiot box, boob tube, telly, goggle box; airplane, aeroplane, plane;
dirt track; apparel, wearing apparel, dress, clothes; pole; land, ground, soil; bannister, banister, balustrade,
balusters, handrail; escalator, moving staircase, moving stairway; ottoman, pouf, pouffe, puff, hassock; bottle;
buffet, counter, sideboard; poster, posting, placard, notice, bill, card; stage; van; ship; fountain; conveyer belt,
conveyor belt, conveyer, conveyor, transporter; canopy; washer, automatic washer, washing machine; plaything, toy;
swimming pool, swimming bath, natatorium; stool; barrel, cask; basket, handbasket; waterfall, falls; tent,
collapsible shelter; bag; minibike, motorbike; cradle; oven; ball; food, solid food; step, stair; tank, storage tank;
trade name, brand name, brand, marque; microwave, microwave oven; pot, flowerpot; animal, animate being, beast, brute,
creature, fauna; bicycle, bike, wheel, cycle; lake; dishwasher, dish washer, dishwashing machine; screen,
silver screen, projection screen; blanket, cover; sculpture; hood, exhaust hood; sconce; vase; traffic light,
traffic signal, stoplight; tray; ashcan, trash can, garbage can, wastebin, ash bin, ash-bin, ashbin, dustbin,
trash barrel, trash bin; fan; pier, wharf, wharfage, dock; crt screen; plate; monitor, monitoring device;
bulletin board, notice board; shower; radiator; glass, drinking glass; clock; flag
"""
# One color a class, red, green and blue as hexadecimal bytes.
_COLORS = """
000000 787878 b47878 06e6e6 503232 04c803 787850 8c8c8c cc05ff e6e6e6 04fa07 e005ff ebff07 96053d 787846 08ff33 ff0652
8fff8c ccff04 ff3307 cc4603 0066c8 3de6fa ff0633 0b66ff ff0747 ff09e0 0907e6 dcdcdc ff095c 7009ff 08ffd6 07ffe0 ffb806
0aff47 ff290a 07ffff e0ff08 6608ff ff3d06 ffc207 ff7a08 00ff14 ff0829 ff0599 0633ff eb0cff a09614 00a3ff 8c8c8c fa0a0f
14ff00 1fff00 ff1f00 ffe000 99ff00 0000ff ff4700 00ebff 00adff 1f00ff 0bc8c8 ff5200 00fff5 003dff 00ff70 00ff85 ff0000
ffa300 ff6600 c2ff00 008fff 33ff00 0052ff 00ff29 00ffad 0a00ff adff00 00ff99 ff5c00 ff00ff ff00f5 ff0066 ffad00 ff0014
ffb8b8 001fff 00ff3d 0047ff ff00cc 00ffc2 00ff52 000aff 0070ff 3300ff 00c2ff 007aff 00ffa3 ff9900 00ff0a ff7000 8fff00
5200ff a3ff00 ffeb00 08b8aa 8500ff 00ff5c b800ff ff001f 00b8ff 00d6ff ff0070 5cff00 00e0ff 70e0ff 46b8a0 a300ff 9900ff
47ff00 ff00a3 ffcc00 ff008f 00ffeb 85ff00 ff00eb f500ff ff007a fff500 0abed4 d6ff00 00ccff 1400ff ffff00 0099ff 0029ff
00ffcc 2900ff 29ff00 ad00ff 00f5ff 4700ff 7a00ff 00ffb8 005cff b8ff00 0085ff ffd600 19c2c2 66ff00 5c00ff
"""

SYNONYMS = names_in(_NAMES, ';')
# The challenge names a class by its first synonym, except for television.
_FIRST = [synonyms.split(',')[0] for synonyms in SYNONYMS]

register(
    DatasetDescriptor(
        name='ade20k',
        summary='ADE20K: the 150 classes of its scene parsing challenge, and 0 for everything else.',
        source='arXiv:1608.05442',
        license='annotations: BSD 3-Clause; images: terms of use of ADE20K',
        num_classes=151,
        ignore_label=0,
        ignore_label_is_class=True,
        splits={'train': 20210, 'val': 2000},
        class_names=('other', *('television receiver' if name == 'television' else name for name in _FIRST)),
        palette=colors_in(_COLORS),
    )
)
