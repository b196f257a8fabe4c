"""The tables of the paper and of chapters 2 to 4 as printed; ``recipe_published.py`` says how they are read."""

EARLY = {
    "paper.table1": (
        "{row}.{column}",
        """
        row         softmax  w-sigmoid0.1  w-sigmoid0.3  w-sigmoid0.7  w-linear  w-cosine  a-softmax  ga-softmax
        sigmoid0.1    90.97         90.91         90.89         90.88     91.07     91.13      91.87       91.99
        sigmoid0.3    91.08         91.44         91.37         91.21     91.34     91.28      92.13       92.38
        sigmoid0.7    91.05         91.16         91.47         91.07     90.99     91.18      92.22       92.36
        linear        91.10         90.93         91.42         90.96     90.95     91.24      92.21       92.32
        cosine        90.89         90.88         91.08         91.22     91.17     90.99      91.94       92.19
        original      90.58         90.58         90.73         90.78     91.08     90.68      91.78       91.80
        """,
    ),
    "paper.table2": (
        "{row}.{column}",
        """
        row          cnn3   cnn9  cnn18  cnn45  cnn60  resnet32
        sigmoid0.1  82.08  91.13  91.43  89.34  87.67     90.94
        sigmoid0.3  81.92  91.28  91.55  89.73  87.85      91.7
        sigmoid0.7   82.4  91.18  91.69  89.85  88.42     91.19
        linear      82.31  91.15  91.24  90.15  89.91     91.25
        cosine      82.23  90.99  91.23  90.05  89.28     91.38
        original    81.19  90.68  90.62  88.23  88.15     90.40
        """,
    ),
    "paper.table3": (
        "{row}",
        """
        row         accuracy
        sigmoid0.1     86.29
        sigmoid0.3     85.67
        sigmoid0.7     85.51
        linear         85.34
        cosine         85.25
        original       80.73
        """,
    ),
    "paper.table4": (
        "{row}.{column}",
        """
        row       cifar10+  cifar100
        resnet32     93.26     72.85
        s-sw         94.47     76.02
        l-lw         94.33     75.62
        c-cw         94.64     74.92
        s-g          95.01     76.39
        """,
    ),
    "thesis.table2.2": (
        "{row}",
        """
        row      error
        hinge     0.47
        softmax   0.40
        m2        0.32
        m3        0.31
        m4        0.31
        """,
    ),
    "thesis.table2.3": (
        "{column}.{row}",
        """
        row      cifar10  cifar10+
        hinge       9.91      6.96
        softmax     9.05      6.50
        m2          7.73      6.01
        m3          7.66      5.94
        m4          7.58      5.92
        """,
    ),
    "thesis.table2.4": (
        "{row}",
        """
        row      error
        hinge    32.90
        softmax  32.74
        m2       29.95
        m3       29.87
        m4       29.53
        """,
    ),
    "thesis.table2.5": (
        "{row}",
        """
        row          accuracy
        softmax         96.53
        contrastive     97.31
        m2          97.81
        m3          98.27
        m4          98.71
        """,
    ),
    "thesis.table2.8": (
        "{column}.{row}",
        """
        row  softmax     m1     m2     m3     m4
        lfw    97.88  97.90  98.40  99.25  99.42
        ytf     93.1   93.2   93.8   94.4   95.0
        """,
    ),
    "thesis.table2.9": (
        "{row}.{column}",
        """
        row            lfw   ytf
        softmax      97.88  93.1
        contrastive  98.78  93.5
        triplet      98.70  93.4
        l-softmax    99.10  94.0
        center       99.05  94.4
        sphereface   99.42  95.0
        """,
    ),
    "thesis.table2.10": (
        "{row}.{column}",
        """
        row           rank1     tar
        softmax      54.855  65.925
        contrastive  65.219  78.865
        triplet      64.797  78.322
        l-softmax    67.128  80.423
        center       65.494  80.146
        sphereface   72.729  85.561
        """,
    ),
    "thesis.table4.1": (
        "{row}",
        """
        row                  error
        linearly-weighted    22.95
        product-weighted     23.03
        separately-weighted  23.38
        standard-gradients   23.09
        weight-projection    21.17
        weighted-gradients   21.45
        """,
    ),
    "thesis.table4.2": (
        "{row}.{column}",
        """
        row      linear  cosine  square_cosine
        linear    33.39   31.76            N/C
        tanh      32.88   31.88          34.26
        segment   34.69   30.34            N/C
        """,
    ),
    "thesis.table4.3": (
        "{row}.{column}",
        """
        row      cosine.no-relu  square_cosine.no-relu  cosine.relu  square_cosine.relu
        sphere            33.31                  25.90        26.00               26.97
        ball              31.81                  25.43        25.18               26.48
        tanh              32.27                  25.27        25.15               26.94
        linear            36.49                  24.36        24.81               25.14
        segment           33.57                  24.29        24.96               25.04
        log               33.62                  24.91        25.17               25.85
        mix               33.46                  24.93        25.27               25.77
        """,
    ),
    "thesis.table4.4": (
        "{row}.{column}",
        """
        row      linear  cosine  square_cosine
        sphere    21.79   21.44          24.40
        ball      21.44   21.12          24.31
        tanh       21.6   21.17          24.77
        linear    21.09   22.17          21.31
        segment   20.86   20.91          20.88
        log       21.84   21.08          22.86
        mix       21.02   21.28          21.81
        """,
    ),
    "thesis.table4.5": (
        "{row}.{column}",
        """
        row                   cifar10  cifar100
        tanh-cosine              4.75     21.12
        linear-square_cosine     5.34     20.23
        """,
    ),
    "thesis.table4.6": (
        "{row}.{column}",
        """
        row       standard  modified  modified-no-bn
        baseline     12.63     12.10             N/C
        sphere       12.68     11.55           13.30
        linear       11.99     11.50             N/C
        tanh         12.47     11.10           12.79
        """,
    ),
    "thesis.table4.7": (
        "{column}.{row}",
        """
        row           baseline  sphere   ball   tanh
        natural.none     85.35   88.58  91.13  91.45
        natural.fgsm     18.82   43.64  50.47  52.60
        natural.bim       8.67    8.89   7.74  10.18
        fgsm.none        83.70   87.41  87.47  87.54
        fgsm.fgsm        78.96   85.98  82.20  81.46
        fgsm.bim          7.96   35.07  17.38  19.86
        """,
    ),
    "thesis.table4.8": (  # without attack as in Table 4.7
        "{column}.{row}",
        """
        row           baseline  sphere   ball   tanh
        natural.fgsm     50.90   56.71  49.50  50.61
        natural.bim      36.22   43.10  27.48  29.06
        fgsm.fgsm        77.57   76.29  78.67  80.38
        fgsm.bim         78.55   77.79  80.59  82.47
        """,
    ),
}
