"""Words that people and tool authors use for one another, so that a query meets a tool that says it differently.

The one rule: a line holds words of one meaning or one narrow topic, written by hand.
"""

from __future__ import annotations

from interlock.discovery import words


def related(term: str) -> frozenset[str]:
    """The stemmed terms that stand near a stemmed term; empty for most."""
    return _RELATED.get(term, frozenset())


def _read(lines: str) -> dict[str, frozenset[str]]:
    near: dict[str, set[str]] = {}
    for line in lines.strip().splitlines():
        group = {words.stem(word) for word in line.split()}
        for term in group:
            near.setdefault(term, set()).update(group - {term})
    return {term: frozenset(group) for term, group in near.items()}


_RELATED = _read(
    """
    find search lookup locate discover
    retrieve fetch read obtain load download
    show display view list browse
    create add make new generate insert register
    delete remove erase drop clear discard
    update edit modify change alter revise patch
    send deliver dispatch transmit post
    calculate compute count determine evaluate
    convert transform translate change
    translate translation language
    compare comparison difference versus diff
    analyze analysis examine inspect study
    check verify validate confirm test
    schedule plan arrange appointment calendar
    start begin launch run execute
    stop end halt terminate kill cancel abort
    save store keep persist archive backup
    copy duplicate clone replicate
    move transfer relocate migrate
    rename name title label
    merge combine join concatenate
    split divide separate
    sort order rank arrange
    filter select choose pick
    recommend suggest suggestion advice advise propose recommendation
    explain describe clarify teach
    summarize summary digest abstract brief overview condense
    buy purchase shop shopping order acquire
    sell sale sales
    pay payment invoice bill billing charge
    refund return reimbursement
    price cost fee rate expensive cheap afford affordable
    discount coupon deal bargain promo promotion saving
    product item goods merchandise
    store shop retailer market mall
    cart basket checkout
    money cash currency dollar euro usd eur gbp
    currency exchange forex usd eur gbp cad yen rate
    bank banking account finance financial
    finance financial invest investment stock
    stock share equity market ticker trading
    crypto cryptocurrency bitcoin ethereum blockchain coin token btc eth nft
    loan mortgage lend credit debt
    tax taxes taxation
    budget spending expense expenditure
    insurance insure policy coverage
    salary wage income pay
    job career employment work vacancy hiring occupation recruit hire
    resume cv application
    company business firm enterprise corporation organization
    customer client buyer consumer
    employee staff worker personnel
    meeting conference call appointment
    task todo chore assignment
    project management task team collaborate
    reminder alarm alert notify notification remind
    email mail inbox message
    message text chat sms dm
    phone telephone mobile cell smartphone call
    contact address person people
    social facebook twitter instagram tiktok linkedin media
    video movie film clip youtube watch
    movie film cinema theater show
    tv television series show episode
    music song track album artist playlist tune singer band
    song lyrics music
    podcast audio episode
    audio sound voice speech
    speech voice talk speak
    image picture photo photograph photography illustration
    draw drawing paint sketch art illustration
    art artwork painting museum
    book novel read reading author literature
    article paper publication journal
    research study academic scholar paper science scientific
    news headline current event journalism
    weather forecast temperature rain climate sunny snow
    climate environment weather
    air pollution quality
    map location place address geography
    location place where city region area nearby near
    city town
    country nation
    route direction navigate navigation path way
    distance far length
    travel trip vacation tour tourism holiday journey itinerary
    flight airline airplane plane fly airport
    hotel accommodation lodging stay room hostel
    book booking reserve reservation
    train railway subway metro rail
    bus transit transport transportation
    car vehicle automobile auto driving
    taxi cab ride uber
    rent rental lease hire
    house home apartment property housing estate realty
    restaurant dining eat food cuisine
    food meal dish cuisine
    recipe cook cooking ingredient meal dish
    diet nutrition calorie healthy
    drink beverage wine beer
    health medical medicine healthcare
    doctor physician provider clinic therapist
    hospital clinic
    drug medication medicine pharmacy pharmaceutical
    disease illness condition disorder
    fitness exercise workout gym
    sleep rest
    stress anxiety mental psychology
    sport game match team league player
    game play player gaming
    football soccer
    astrology horoscope zodiac
    school education student course class learn learning
    course class lesson lecture tutorial training
    learn study teach education
    university college
    exam test quiz question
    child kid children baby
    family parent relative
    pet animal dog cat
    plant garden flower
    law legal regulation legislation attorney lawyer
    politics political government election policy
    crime police criminal
    religion bible church
    history historical past
    math mathematics equation arithmetic calculator
    number digit numeric
    average mean
    statistics statistical data
    chart graph plot diagram visualize visualization
    database db sql table query
    table spreadsheet excel csv sheet
    file document folder directory filesystem disk
    pdf document
    document doc paper
    note notes memo notebook
    write writing compose draft author
    rewrite rephrase paraphrase reword polish
    grammar spelling proofread
    code program programming script software
    software app application program
    repository repo git github
    bug error issue defect problem
    deploy release publish rollout
    server host machine
    cloud aws azure gcp
    web website internet online site url page
    url link
    browser browse web
    crawl scrape extract
    search engine google web
    password credential login authentication secret
    user account profile member
    login signin authenticate
    encrypt encryption cipher secure
    security secure protection safety
    log logs record audit
    event happening concert
    ticket pass admission
    concert show performance
    date day calendar
    time clock hour
    zip postal postcode
    weight mass heavy
    energy power electricity
    solar sun
    water ocean sea
    space astronomy planet nasa
    earthquake disaster
    chemistry chemical molecule compound
    biology gene genetic dna protein
    physics force velocity
    velocity speed
    height tall length
    size dimension large
    area surface
    shape geometry triangle circle
    probability chance odds likelihood
    random dice chance
    joke humor fun funny
    gift present
    fashion clothes clothing apparel outfit
    beauty cosmetic makeup
    ad ads advertise advertising advertisement marketing campaign
    brand logo
    seo keyword ranking
    review rating feedback opinion
    survey poll questionnaire
    prompt ai chatgpt gpt
    robot automation automate workflow
    device hardware equipment
    sensor measure measurement
    light lamp bulb
    temperature heat thermostat
    delivery shipping shipment package parcel
    track trace monitor follow
    inventory stock warehouse supply
    export download save
    import upload
    capability feature ability
    trend trending popular
    popular best top
    latest recent new current
    """
)
