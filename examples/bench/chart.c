/*
 * Drawing: a frame of 800 by 520 pixels, a grid, a line with marks for each series, and a legend.
 * Colours can be told apart by the colour-blind, and the marks by everybody in black and white.
 */
#include "chart.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report.h"

enum {
    WIDTH = 800,
    HEIGHT = 520,
    LEFT = 84,
    RIGHT = 24,
    TOP = 66,
    BOTTOM = 112, /* the sizes, the label of the axis and the legend */
    LEGEND_ROW = 22,
    MARK = 5
};

/* From the palette of Okabe and Ito, "Color Universal Design" (2008). */
static const char *const colours[CHART_SERIES_MAX] = {"#0072b2", "#d55e00", "#444444",
                                                      "#009e73", "#cc79a7", "#e69f00"};

/* What maps sizes and rates to pixels: the logarithms at the ends of the axes. */
struct plot {
    FILE *file;
    const struct chart *chart;
    double x_low;
    double x_high;
    double y_low;
    double y_high;
};

static double x_of(const struct plot *plot, double size)
{
    const double share = (log10(size) - plot->x_low) / (plot->x_high - plot->x_low);
    return LEFT + share * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct plot *plot, double rate)
{
    const double share = (log10(rate) - plot->y_low) / (plot->y_high - plot->y_low);
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
}

static void put_text(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '&':
            fputs("&amp;", file);
            break;
        default:
            fputc(*text, file);
        }
    }
}

static void put_label(FILE *file, double x, double y, const char *style, const char *text)
{
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, style);
    put_text(file, text);
    fputs("</text>\n", file);
}

/* Writes a number as people do: 20, 5 k, 1.5 M. Sizes are powers of two, rates powers of ten. */
static void name_number(double value, double thousand, char *out, size_t size)
{
    static const char *const units[] = {"", " k", " M", " G"};
    size_t unit = 0;
    while (value >= thousand && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= thousand;
        unit++;
    }
    snprintf(out, size, "%.4g%s", value, units[unit]);
}

/* The axes end a little beyond the data, so that no mark lies on the frame. */
static void fit(struct plot *plot)
{
    const struct chart *chart = plot->chart;
    double low = 0;
    double high = 0;
    for (size_t i = 0; i < chart->series_count; i++) {
        const struct chart_series *series = &chart->series[i];
        for (size_t j = 0; j < chart->size_count; j++) {
            const double bottom = series->lows != NULL ? series->lows[j] : series->rates[j];
            const double top = series->highs != NULL ? series->highs[j] : series->rates[j];
            low = bottom > 0 && (low <= 0 || bottom < low) ? bottom : low;
            high = top > high ? top : high;
        }
    }
    low = low > 0 ? low : 1;
    high = high > low ? high : low * 10;
    plot->y_low = log10(low) - 0.08;
    plot->y_high = log10(high) + 0.08;
    plot->x_low = log10((double)chart->sizes[0]) - 0.08;
    plot->x_high = log10((double)chart->sizes[chart->size_count - 1]) + 0.08;
}

static void draw_horizontal(const struct plot *plot, double rate)
{
    char name[32];
    const double y = y_of(plot, rate);
    name_number(rate, 1000, name, sizeof(name));
    fprintf(plot->file, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#dddddd\"/>\n",
            LEFT, y, WIDTH - RIGHT, y);
    put_label(plot->file, LEFT - 8, y + 5, "text-anchor=\"end\"", name);
}

static void draw_grid(const struct plot *plot)
{
    static const double steps[] = {1, 2, 5};
    const struct chart *chart = plot->chart;
    for (int power = (int)floor(plot->y_low); power <= (int)ceil(plot->y_high); power++) {
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
            const double rate = steps[i] * pow(10, power);
            if (log10(rate) > plot->y_low && log10(rate) < plot->y_high) {
                draw_horizontal(plot, rate);
            }
        }
    }
    for (size_t i = 0; i < chart->size_count; i++) {
        char name[32];
        const double x = x_of(plot, (double)chart->sizes[i]);
        name_number((double)chart->sizes[i], 1024, name, sizeof(name));
        fprintf(plot->file,
                "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#eeeeee\"/>\n", x, TOP,
                x, HEIGHT - BOTTOM);
        put_label(plot->file, x, HEIGHT - BOTTOM + 20, "text-anchor=\"middle\"", name);
    }
    fprintf(
        plot->file,
        "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#888888\"/>\n",
        LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
}

/* A circle, a square, a diamond, or a triangle. */
static void draw_mark(FILE *file, size_t number, double x, double y)
{
    const char *colour = colours[number];
    switch (number % 4) {
    case 0:
        fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"%s\"/>\n", x, y, MARK,
                colour);
        break;
    case 1:
        fprintf(file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n",
                x - MARK, y - MARK, 2 * MARK, 2 * MARK, colour);
        break;
    case 2:
        fprintf(file, "<path d=\"M%.1f %.1fl%d %dl%d %dl%d %dz\" fill=\"%s\"/>\n", x, y - MARK - 1,
                MARK + 1, MARK + 1, -MARK - 1, MARK + 1, -MARK - 1, -MARK - 1, colour);
        break;
    default:
        fprintf(file, "<path d=\"M%.1f %.1fl%d %dh%dz\" fill=\"%s\"/>\n", x, y - MARK - 1, MARK + 1,
                2 * MARK, -2 * MARK - 2, colour);
    }
}

static void draw_spread(const struct plot *plot, const struct chart_series *series, size_t i,
                        const char *colour)
{
    if (series->lows == NULL || series->highs == NULL || !(series->lows[i] > 0)) {
        return;
    }
    const double x = x_of(plot, (double)plot->chart->sizes[i]);
    fprintf(plot->file,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
            "stroke-opacity=\"0.5\" stroke-width=\"2\"/>\n",
            x, y_of(plot, series->lows[i]), x, y_of(plot, series->highs[i]), colour);
}

static void draw_series(const struct plot *plot, size_t number)
{
    const struct chart_series *series = &plot->chart->series[number];
    const char *colour = colours[number];
    fprintf(plot->file, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2.5\" points=\"",
            colour);
    for (size_t i = 0; i < plot->chart->size_count; i++) {
        if (series->rates[i] > 0) {
            fprintf(plot->file, "%s%.1f,%.1f", i == 0 ? "" : " ",
                    x_of(plot, (double)plot->chart->sizes[i]), y_of(plot, series->rates[i]));
        }
    }
    fputs("\"/>\n", plot->file);
    for (size_t i = 0; i < plot->chart->size_count; i++) {
        if (series->rates[i] > 0) {
            draw_spread(plot, series, i, colour);
            draw_mark(plot->file, number, x_of(plot, (double)plot->chart->sizes[i]),
                      y_of(plot, series->rates[i]));
        }
    }
}

/* In two columns under the axis, in the order of the series. */
static void draw_legend(const struct plot *plot)
{
    for (size_t i = 0; i < plot->chart->series_count; i++) {
        const double x = LEFT + (double)(i % 2) * (WIDTH - LEFT - RIGHT) / 2;
        const double y = HEIGHT - BOTTOM + 66 + (double)(i / 2) * LEGEND_ROW;
        fprintf(plot->file,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
                "stroke-width=\"2.5\"/>\n",
                x, y, x + 36, y, colours[i]);
        draw_mark(plot->file, i, x + 18, y);
        put_label(plot->file, x + 44, y + 5, "", plot->chart->series[i].name);
    }
}

static void draw(struct plot *plot)
{
    const struct chart *chart = plot->chart;
    fit(plot);
    fprintf(plot->file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"14\" fill=\"#222222\">\n"
            "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
    put_label(plot->file, LEFT, 28, "font-size=\"18\" font-weight=\"bold\"", chart->title);
    put_label(plot->file, LEFT, 50, "fill=\"#555555\" font-size=\"13\"", chart->subtitle);
    draw_grid(plot);
    put_label(plot->file, LEFT + (WIDTH - LEFT - RIGHT) / 2.0, HEIGHT - BOTTOM + 42,
              "text-anchor=\"middle\"", chart->x_label);
    put_label(plot->file, -(TOP + (HEIGHT - TOP - BOTTOM) / 2.0), 22,
              "text-anchor=\"middle\" transform=\"rotate(-90)\"", chart->y_label);
    for (size_t i = 0; i < chart->series_count; i++) {
        draw_series(plot, i);
    }
    draw_legend(plot);
    fputs("</svg>\n", plot->file);
}

int chart_write(const struct chart *chart, const char *path)
{
    if (chart->size_count == 0 || chart->series_count > CHART_SERIES_MAX) {
        return report_error("%s: nothing to draw", path);
    }
    struct plot plot = {.file = fopen(path, "w"), .chart = chart};
    if (plot.file == NULL) {
        return report_error("%s: %s", path, strerror(errno));
    }
    draw(&plot);
    const int failed = ferror(plot.file);
    if (fclose(plot.file) != 0 || failed) {
        return report_error("%s: %s", path, strerror(errno));
    }
    return 0;
}
