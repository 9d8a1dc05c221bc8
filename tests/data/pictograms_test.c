#include "data/pictograms.h"
#include "es_test.h"

static int point_is_inside(float x, float y) { return x >= -1 && x <= 1 && y >= -1 && y <= 1; }

TEST(drawings_fit_their_grid) {
    for (int label = 0; label < ES_PICTOGRAM_CLASSES; label++) {
        for (int variant = 0; variant < ES_PICTOGRAM_VARIANTS; variant++) {
            EsPictogram p = es_pictogram_parse(label, variant);
            float low = 1, high = -1;
            EXPECT(p.n_segments >= 3 && p.n_segments <= ES_PICTOGRAM_MAX_SEGMENTS);
            for (int i = 0; i < p.n_segments; i++) {
                EsSegment s = p.segments[i];
                EXPECT(point_is_inside(s.x0, s.y0) && point_is_inside(s.x1, s.y1));
                EXPECT(s.x0 != s.x1 || s.y0 != s.y1);
                low = fminf(low, fminf(s.y0, s.y1));
                high = fmaxf(high, fmaxf(s.y0, s.y1));
            }
            EXPECT(high - low >= 1.0f); // no drawing is a speck
        }
    }
}

TEST(arrow_parses_as_drawn) {
    EsPictogram arrow = es_pictogram_parse(0, 0); // "0484 518457"
    EXPECT_EQ(arrow.n_segments, 3);
    EXPECT(arrow.segments[0].x0 == -1.0f && arrow.segments[0].y0 == 0.0f);
    EXPECT(arrow.segments[0].x1 == 1.0f && arrow.segments[0].y1 == 0.0f);
    EXPECT(arrow.segments[1].x0 == 0.25f && arrow.segments[1].y0 == -0.75f);
    EXPECT(arrow.segments[2].x1 == 0.25f && arrow.segments[2].y1 == 0.75f);
}

static int segments_are_equal(EsSegment a, EsSegment b) {
    return (a.x0 == b.x0 && a.y0 == b.y0 && a.x1 == b.x1 && a.y1 == b.y1) ||
           (a.x0 == b.x1 && a.y0 == b.y1 && a.x1 == b.x0 && a.y1 == b.y0);
}

static int pictograms_are_equal(const EsPictogram *a, const EsPictogram *b) {
    int n_found = 0;
    for (int i = 0; i < a->n_segments; i++) {
        for (int j = 0; j < b->n_segments; j++) {
            n_found += segments_are_equal(a->segments[i], b->segments[j]);
        }
    }
    return a->n_segments == b->n_segments && n_found == a->n_segments;
}

TEST(no_drawing_is_another_or_its_mirror_image) {
    for (int a = 0; a < 40; a++) {
        for (int b = a + 1; b < 40; b++) {
            EsPictogram first = es_pictogram_parse(a / 4, a % 4),
                        second = es_pictogram_parse(b / 4, b % 4);
            EsPictogram mirror = second;
            for (int i = 0; i < mirror.n_segments; i++) {
                mirror.segments[i].x0 = -mirror.segments[i].x0;
                mirror.segments[i].x1 = -mirror.segments[i].x1;
            }
            EXPECT(!pictograms_are_equal(&first, &second));
            EXPECT(!pictograms_are_equal(&first, &mirror));
        }
    }
}
